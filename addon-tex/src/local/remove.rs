//! Removes what a stranger's program may have made.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, chmodat, open, openat, renameat, unlinkat};
use rustix::io::Errno;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Removes a folder with all below. No link is followed, and no depth is too much: what would have to be descended into is
/// moved up first. (The standard library descends by recursion, and thirty thousand folders end this process.)
pub(super) fn remove_all(folder: &Path) -> io::Result<()> {
    let top = open(folder, FOLDER, Mode::empty())?;
    let mut moved = 0_u64;
    while let Some(inner) = first_folder(top.as_fd())? {
        let folder = enter(top.as_fd(), &inner)?;
        while let Some(child) = first_folder(folder.as_fd())? {
            raise(folder.as_fd(), &child, top.as_fd(), &mut moved)?;
        }
        unlinkat(&top, &inner, AtFlags::REMOVEDIR)?;
    }
    drop(top);
    fs::remove_dir(folder)
}

/// Removes the files of a folder, and its empty folders; gives one that is not empty.
fn first_folder(folder: BorrowedFd<'_>) -> io::Result<Option<CString>> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(Some(name.to_owned())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn enter(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    match openat(folder, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            chmodat(folder, name, Mode::RWXU, AtFlags::empty())?;
            Ok(openat(folder, name, FOLDER, Mode::empty())?)
        }
        entered => Ok(entered?),
    }
}

/// Moves a folder to the top, under a name that is free there.
fn raise(
    from: BorrowedFd<'_>,
    name: &CStr,
    top: BorrowedFd<'_>,
    moved: &mut u64,
) -> io::Result<()> {
    loop {
        *moved += 1;
        match renameat(from, name, top, format!("{moved}")) {
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            done => return Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::mkdirat;

    use super::*;

    #[test]
    fn everything_below_goes_and_nothing_beside() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("place");
        for folder in ["place/a/b/c", "place/1/2", "place/2", "beside"] {
            fs::create_dir_all(base.path().join(folder)).unwrap();
        }
        for file in [
            "place/a/x",
            "place/a/b/c/x",
            "place/1/2/x",
            "place/3",
            "beside/x",
        ] {
            fs::write(base.path().join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink(base.path().join("beside"), place.join("a/link")).unwrap();
        remove_all(&place).unwrap();
        assert!(!place.exists());
        assert!(base.path().join("beside/x").exists());
    }

    #[test]
    fn no_depth_is_too_much() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("place");
        fs::create_dir(&place).unwrap();
        let mut here = open(&place, FOLDER, Mode::empty()).unwrap();
        for _ in 0..30_000 {
            mkdirat(&here, "a", Mode::RWXU).unwrap();
            here = openat(&here, "a", FOLDER, Mode::empty()).unwrap();
        }
        drop(here);
        remove_all(&place).unwrap();
        assert!(!place.exists());
    }
}
