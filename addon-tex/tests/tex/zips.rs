//! Zip files that strangers packed.

use std::io::{Cursor, Write};

use addon_tex::{Limits, Sources};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::bench::{replace, zip};

#[track_caller]
fn refused(bytes: &[u8], limits: Limits) -> String {
    Sources::from_zip(bytes, limits)
        .expect_err("refused")
        .to_string()
}

#[test]
fn files_come_out_as_they_went_in() {
    let files: [(&str, &[u8]); 4] = [
        ("A.tex", b"1"),
        ("a.tex", b"22"),
        ("fig/ü (1).png", &[0; 5000]),
        (".latexmkrc", b""),
    ];
    let sources = Sources::from_zip(&zip(&files), Limits::default()).unwrap();
    let again = Sources::from_zip(&sources.to_zip().unwrap(), Limits::default()).unwrap();
    let mut expected = files.to_vec();
    expected.sort_unstable();
    assert_eq!(again.files().collect::<Vec<_>>(), expected);
    assert!(again.files().eq(sources.files()));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let names = [
        "/etc/passwd",
        "../a.tex",
        "a/../../b.tex",
        "a\\b.tex",
        "a\0.tex",
        "-e.tex",
        "a/-e.tex",
        "a\nb",
        "$(id).idx",
    ];
    for name in names {
        let error = refused(&zip(&[(name, b"x")]), Limits::default());
        assert!(error.contains("is not taken"), "{name:?}: {error}");
        assert!(!error.chars().any(char::is_control), "{error:?}");
    }
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer
        .add_directory("AA/b", SimpleFileOptions::default())
        .unwrap();
    let mut bytes = writer.finish().unwrap().into_inner();
    replace(&mut bytes, b"AA/b", b"../b");
    assert!(refused(&bytes, Limits::default()).contains("outside"));
}

#[test]
fn links_and_devices_are_refused() {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer
        .add_symlink("fig.png", "/etc/passwd", SimpleFileOptions::default())
        .unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    assert!(refused(&bytes, Limits::default()).contains("it is a link or a device"));
    // As a fifo: the mode is in the upper half of the external attributes, first in the signature's order.
    let mut fifo = bytes;
    let mode = 0o120_777_u32 << 16;
    replace(
        &mut fifo,
        &mode.to_le_bytes(),
        &(0o010_644_u32 << 16).to_le_bytes(),
    );
    assert!(refused(&fifo, Limits::default()).contains("it is a link or a device"));
}

#[test]
fn two_files_of_one_name_are_refused() {
    let twice = zip(&[
        ("b.tex", b"0"),
        ("a\u{1b}.tex", b"1"),
        ("a\u{1b}.tex", b"2"),
    ]);
    let expected = "a\\u{1b}.tex is there twice: rename one";
    assert_eq!(refused(&twice, Limits::default()), expected);
    let both = zip(&[("a", b"1"), ("a/b", b"2")]);
    assert!(refused(&both, Limits::default()).contains("a is there twice"));
}

#[test]
fn too_many_files_are_refused() {
    let limits = Limits {
        files: 2,
        ..Limits::default()
    };
    let files: [(&str, &[u8]); 3] = [("a", b"1"), ("b", b"2"), ("c", b"3")];
    assert!(Sources::from_zip(&zip(&files[..2]), limits).is_ok());
    assert!(refused(&zip(&files), limits).contains("more than 2 files"));
}

/// The reader would keep all of a directory in memory, some twenty times its size, before anyone can count.
#[test]
fn directory_of_too_many_files_is_not_read() {
    let limits = Limits {
        files: 2,
        ..Limits::default()
    };
    let files: [(&str, &[u8]); 3] = [("a", b"1"), ("b", b"2"), ("c", b"3")];
    let good = zip(&files);
    // With a record of 64 bits before that of 32.
    let end = good.len() - 22;
    let mut wide = good[..end].to_vec();
    wide.extend(b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0");
    wide.extend([3_u64.to_le_bytes(); 2].as_flattened());
    let start = good.windows(4).position(|it| it == b"PK\x01\x02").unwrap() as u64;
    wide.extend((end as u64 - start).to_le_bytes());
    wide.extend(start.to_le_bytes());
    wide.extend(b"PK\x06\x07\0\0\0\0");
    wide.extend((end as u64).to_le_bytes());
    wide.extend(b"\x01\0\0\0PK\x05\x06\0\0\0\0");
    wide.extend([0xff; 12]);
    wide.extend([0; 2]);
    assert_eq!(
        Sources::from_zip(&wide, Limits::default())
            .unwrap()
            .files()
            .count(),
        3
    );
    for mut bytes in [good, wide] {
        let last = bytes.windows(4).rposition(|it| it == b"PK\x01\x02");
        // Its name's length.
        bytes[last.unwrap() + 28..][..2].fill(0xff);
        let error = refused(&bytes, limits);
        assert!(error.contains("more than 2 files"), "{error}");
        // So it says where it has read.
        assert!(refused(&bytes, Limits::default()).contains("the zip file cannot be read"));
    }
}

#[test]
fn bombs_are_refused_whatever_their_headers_say() {
    let limits = Limits {
        total_bytes: 1 << 20,
        ..Limits::default()
    };
    let size = 3_000_001_u32;
    let mut bomb = zip(&[("a", &[0; 500_000]), ("b", &vec![0; size as usize])]);
    assert!(bomb.len() < 20_000);
    assert!(refused(&bomb, limits).contains("more than 1048576 bytes, unpacked"));
    replace(&mut bomb, &size.to_le_bytes(), &10_u32.to_le_bytes());
    let error = refused(&bomb, limits);
    assert!(
        error.contains("unpacked") || error.contains("the zip file cannot be read"),
        "{error}"
    );
    // Together they are too large.
    let many = zip(&[("a", &[0; 600_000]), ("b", &[0; 600_000])]);
    assert!(refused(&many, limits).contains("more than 1048576 bytes, unpacked"));
    let exactly = zip(&[("a", &[0; 1 << 19]), ("b", &[0; 1 << 19])]);
    assert!(Sources::from_zip(&exactly, limits).is_ok());
}

#[test]
fn large_zip_is_not_looked_at() {
    let limits = Limits {
        zip_bytes: 10,
        ..Limits::default()
    };
    assert!(refused(&zip(&[("a", b"1")]), limits).contains("the zip file has more than 10 bytes"));
}

#[test]
fn encrypted_files_are_refused() {
    let mut bytes = zip(&[("a.tex", b"1")]);
    // The flags are at 6 in the local header and at 8 in the central one.
    for (signature, place) in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)] {
        let start = bytes.windows(4).position(|it| it == signature).unwrap();
        bytes[start + place] |= 1;
    }
    assert!(refused(&bytes, Limits::default()).contains("it is encrypted"));
}

#[test]
fn broken_zips_are_refused() {
    let good = zip(&[("a.tex", b"hello hello hello"), ("b.tex", b"x")]);
    for bytes in [&b""[..], b"PK", b"%PDF-", &good[..good.len() - 30]] {
        assert!(refused(bytes, Limits::default()).contains("the zip file cannot be read"));
    }
    // Wherever a bit is wrong, it is read or refused.
    for place in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[place / 8] ^= 1 << (place % 8);
        let _ = Sources::from_zip(&bytes, Limits::default());
    }
}

#[test]
fn deep_folders_are_refused() {
    let deep = "a/".repeat(16) + "b";
    assert!(refused(&zip(&[(&deep, b"x")]), Limits::default()).contains("too many folders"));
}

#[test]
fn empty_zip_has_no_main_file_but_is_one() {
    let empty = ZipWriter::new(Cursor::new(Vec::new()))
        .finish()
        .unwrap()
        .into_inner();
    assert_eq!(
        Sources::from_zip(&empty, Limits::default())
            .unwrap()
            .files()
            .count(),
        0
    );
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer
        .start_file("x", SimpleFileOptions::default())
        .unwrap();
    writer.write_all(b"y").unwrap();
}
