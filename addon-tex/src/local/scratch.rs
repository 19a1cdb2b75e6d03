//! The folder of one compilation.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::process::getuid;

use super::latexmk::RC;
use super::remove::remove_all;
use crate::sources::Sources;

const PREFIX: &str = "lease-tex-";
/// Where the sources are, and TeX writes.
pub(super) const WORK: &str = "work";
/// Where programs keep what is theirs.
pub(super) const HOME: &str = "home";
/// latexmk's settings, where TeX may not write.
pub(super) const RC_FILE: &str = "latexmkrc";
/// The least that a file takes, so that empty ones are not for free.
const BLOCK: u64 = 4096;

/// A folder for one compilation and this user only, locked for as long as it lives. Dropping removes it, too.
pub(super) struct Scratch {
    folder: PathBuf,
    /// The kernel unlocks it when this process dies, however that happens.
    lock: File,
    removed: bool,
}

impl Scratch {
    pub(super) fn create(base: Option<&Path>) -> io::Result<Self> {
        loop {
            let mut builder = tempfile::Builder::new();
            let builder = builder
                .prefix(PREFIX)
                .permissions(Permissions::from_mode(0o700));
            let folder = match base {
                Some(base) => builder.tempdir_in(base)?,
                None => builder.tempdir()?,
            };
            let folder = folder.keep();
            // A sweep may have found it before the lock.
            if let Ok(lock) = lock(&folder)
                && folder.exists()
            {
                return Ok(Self {
                    folder,
                    lock,
                    removed: false,
                });
            }
            let _ = fs::remove_dir(folder);
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// Removes it with all below, and unlocks it.
    pub(super) fn remove(mut self) -> io::Result<()> {
        self.removed = true;
        remove_all(&self.folder)
    }

    /// A plain file's content; `None` if it is larger than `limit`. Nothing on the way to it may lead elsewhere: a document
    /// may have put a link there, to what this process can read and it cannot.
    pub(super) fn read_file(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let file = open_within(&self.lock, path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut content = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut content)?;
        Ok((content.len() as u64 <= limit).then_some(content))
    }

    pub(super) fn name(&self) -> String {
        let name = self.path().file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Writes the sources, each to a path that was checked, as a new plain file.
    pub(super) fn unpack(&self, sources: &Sources) -> io::Result<()> {
        let work = self.path().join(WORK);
        let mut folders = DirBuilder::new();
        folders.mode(0o700).recursive(true);
        folders.create(&work)?;
        folders.create(self.path().join(HOME))?;
        fs::write(self.path().join(RC_FILE), RC)?;
        for (path, content) in sources.files() {
            let place = work.join(path);
            if let Some(folder) = place.parent() {
                folders.create(folder)?;
            }
            File::create_new(place)?.write_all(content)?;
        }
        Ok(())
    }

    /// Removes what processes left that were killed.
    pub(super) fn sweep(base: Option<&Path>) {
        let base = base.map_or_else(std::env::temp_dir, Path::to_owned);
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let is_one = entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(PREFIX.as_bytes());
            let ours = |it: &fs::Metadata| it.is_dir() && it.uid() == getuid().as_raw();
            if is_one && entry.metadata().is_ok_and(|it| ours(&it)) && lock(&entry.path()).is_ok() {
                // What is being ended there may still write; the next sweep finds the rest.
                let _ = remove_all(&entry.path());
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.removed {
            let _ = remove_all(&self.folder);
        }
    }
}

/// Takes the lock, or says that another has it.
fn lock(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty())?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder.into())
}

/// The size of all below, or some of it that is more than `limit`.
pub(super) fn size(folder: &Path, limit: u64) -> u64 {
    let mut size = 0;
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // What has just been removed takes nothing.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            size += metadata.len().max(BLOCK);
            if size > limit {
                return size;
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    size
}

#[cfg(target_os = "linux")]
fn open_within(folder: &File, path: &Path) -> io::Result<File> {
    use rustix::fs::{ResolveFlags, openat2};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(folder, path, flags, Mode::empty(), within)?.into())
}

/// Only the last part of the path is known not to be a link.
#[cfg(not(target_os = "linux"))]
fn open_within(folder: &File, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, path, flags, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folder_that_cannot_be_removed_is_told() {
        let base = tempfile::tempdir().unwrap();
        let create = || Scratch::create(Some(base.path())).unwrap();
        create().remove().unwrap();
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);

        let scratch = create();
        fs::remove_dir(scratch.path()).unwrap();
        fs::write(scratch.path(), "no folder").unwrap();
        assert!(scratch.remove().is_err());
    }

    #[test]
    fn link_on_the_way_to_the_document_is_not_followed() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("others")).unwrap();
        fs::write(base.path().join("others/main.pdf"), "another's").unwrap();
        let scratch = Scratch::create(Some(base.path())).unwrap();
        let work = scratch.path().join(WORK);
        fs::create_dir(&work).unwrap();
        let read = || scratch.read_file(Path::new("work/main.pdf"), 99);
        fs::write(work.join("main.pdf"), "mine").unwrap();
        assert_eq!(read().unwrap().unwrap(), b"mine");
        fs::remove_file(work.join("main.pdf")).unwrap();
        symlink(base.path().join("others/main.pdf"), work.join("main.pdf")).unwrap();
        assert!(read().is_err());
        fs::remove_dir_all(&work).unwrap();
        symlink(base.path().join("others"), &work).unwrap();
        assert!(read().is_err());
        scratch.remove().unwrap();
        assert!(base.path().join("others/main.pdf").exists());
    }

    #[test]
    fn empty_files_are_not_for_free() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        for name in ["a/1", "a/2", "3"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert!(size(folder.path(), u64::MAX) >= 4 * BLOCK);
        assert!(size(folder.path(), BLOCK) > BLOCK);
    }
}
