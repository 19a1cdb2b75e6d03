//! Files that should be small.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// What is in a file; nothing if that is more than so many bytes.
pub(crate) fn read_at_most(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(most as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok((bytes.len() <= most).then_some(bytes))
}

#[test]
fn only_a_small_file_is_read() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("file");
    fs::write(&path, "12345")?;
    assert_eq!(read_at_most(&path, 5)?.as_deref(), Some(&b"12345"[..]));
    assert_eq!(read_at_most(&path, 4)?, None);
    let error = read_at_most(folder.path(), 5).unwrap_err();
    assert_eq!(error.to_string(), "not a file");
    Ok(())
}
