//! Folders of a person.

use std::fs;
use std::os::unix::fs::symlink;

use addon_tex::{Limits, Sources};

#[test]
fn folder_is_read_without_what_is_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("fig/deep")).unwrap();
    fs::create_dir_all(at(".git")).unwrap();
    fs::write(at("main.tex"), "1").unwrap();
    fs::write(at("fig/deep/x.png"), "2").unwrap();
    fs::write(at(".git/config"), "3").unwrap();
    let read = || Sources::from_directory(folder.path(), Limits::default());
    let files = read().unwrap();
    assert_eq!(
        files.files().collect::<Vec<_>>(),
        [("fig/deep/x.png", &b"2"[..]), ("main.tex", b"1")]
    );

    let small = Limits {
        total_bytes: 1,
        ..Limits::default()
    };
    assert!(
        Sources::from_directory(folder.path(), small)
            .unwrap_err()
            .to_string()
            .contains("more than 1 bytes")
    );
    let few = Limits {
        files: 2,
        ..Limits::default()
    };
    assert!(
        Sources::from_directory(folder.path(), few)
            .unwrap_err()
            .to_string()
            .contains("more than 2 files")
    );

    symlink("/etc/passwd", at("link.tex")).unwrap();
    let error = read().unwrap_err().to_string();
    assert!(
        error.contains("link.tex") && error.contains("a link or a device"),
        "{error}"
    );
    let error = Sources::from_directory(&at("none"), Limits::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("none cannot be read"), "{error}");
}
