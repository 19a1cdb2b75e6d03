//! The folder of one server's data and log, gone when the server is.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::paths;

const PREFIX: &str = "run-";

/// Held locked by the process that the folder belongs to.
const OWNER: &str = "owner";

/// A folder below `target/mongo`, removed with this value; what a killed process left is removed by the next.
pub(super) struct Directory {
    folder: TempDir,
    _owner: File,
}

impl Directory {
    pub(super) fn create() -> Result<Self> {
        let parent = paths::server_data();
        fs::create_dir_all(&parent).with_context(|| format!("create {}", parent.display()))?;
        // Until this lock is dropped nobody takes a folder for ownerless that is about to be owned.
        let turn = File::create(parent.join(".lock")).context("open the lock of data folders")?;
        turn.lock().context("lock the data folders")?;
        remove_ownerless(&parent)?;
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(&parent)
            .context("create a data folder")?;
        let owner = File::create(folder.path().join(OWNER)).context("create the owner's lock")?;
        owner.lock().context("own the data folder")?;
        fs::create_dir(folder.path().join("data")).context("create a data folder")?;
        Ok(Self {
            folder,
            _owner: owner,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path().join("mongod.log")
    }
}

fn remove_ownerless(parent: &Path) -> Result<()> {
    for entry in fs::read_dir(parent).context("list the data folders")? {
        let entry = entry.context("list the data folders")?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A folder without the file is just being removed by its owner.
        let owner = File::open(entry.path().join(OWNER));
        if owner.is_ok_and(|owner| owner.try_lock().is_ok())
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            eprintln!("test-mongo: remove {}: {error}", entry.path().display());
        }
    }
    Ok(())
}
