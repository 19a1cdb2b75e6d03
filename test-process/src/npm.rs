//! Packages from npm, installed whole or not at all.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::wish::on_path;

const LOCK_FILE: &str = "package-lock.json";

/// Packages that belong together, in a folder of their own.
#[derive(Clone, Copy, Debug)]
pub struct Packages {
    /// What to call them while they are installed.
    pub what: &'static str,
    /// The folder's name.
    pub folder: &'static str,
    /// The text of `package.json`.
    pub package: &'static str,
    /// The text of `package-lock.json`, which pins every package by version and digest. Its copy in the installed
    /// folder says what is installed there.
    pub lock: &'static str,
}

impl Packages {
    /// The folder below `tools` with the packages, installed now by the npm on the `PATH` unless it is there.
    ///
    /// It comes into being by renaming a finished one, so a folder that is there is complete. A file lock makes a
    /// second process wait and find it.
    pub fn install_once(&self, tools: &Path) -> Result<PathBuf> {
        self.install_once_by(tools, || {
            on_path("npm").context("npm is missing (Debian: apt-get install npm)")
        })
    }

    fn install_once_by(
        &self,
        tools: &Path,
        npm: impl FnOnce() -> Result<PathBuf>,
    ) -> Result<PathBuf> {
        let kept = tools.join(self.folder);
        if self.is_current(&kept) {
            return Ok(kept);
        }
        fs::create_dir_all(tools).with_context(|| format!("create {}", tools.display()))?;
        let lock = File::create(tools.join(".installing")).context("open the lock of tools")?;
        lock.lock().context("lock the folder of tools")?;
        if self.is_current(&kept) {
            return Ok(kept);
        }
        let npm = npm()?;
        self.remove_unfinished(tools);
        let scratch = self.scratch_in(tools)?;
        eprintln!("installing {} from npm ...", self.what);
        self.install(&npm, scratch.path())?;
        let replaced = self.scratch_in(tools)?;
        if kept.exists() {
            fs::rename(&kept, replaced.path().join(self.folder)).context("put the old aside")?;
        }
        fs::rename(scratch.keep(), &kept).with_context(|| format!("place {}", kept.display()))?;
        Ok(kept)
    }

    fn is_current(&self, kept: &Path) -> bool {
        fs::read(kept.join(LOCK_FILE)).is_ok_and(|installed| installed == self.lock.as_bytes())
    }

    fn scratch_prefix(&self) -> String {
        format!(".{}-", self.folder)
    }

    /// In the folder of its destination, since a rename is atomic only within one file system.
    fn scratch_in(&self, tools: &Path) -> Result<TempDir> {
        tempfile::Builder::new()
            .prefix(&self.scratch_prefix())
            .tempdir_in(tools)
            .context("create a scratch folder")
    }

    /// Removes what a killed process has left. An npm that still writes there does not keep us from going on.
    fn remove_unfinished(&self, tools: &Path) {
        let prefix = self.scratch_prefix();
        for entry in fs::read_dir(tools).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix)
                && let Err(error) = fs::remove_dir_all(entry.path())
            {
                eprintln!("test-process: remove {}: {error}", entry.path().display());
            }
        }
    }

    fn install(&self, npm: &Path, folder: &Path) -> Result<()> {
        fs::write(folder.join("package.json"), self.package).context("write package.json")?;
        fs::write(folder.join(LOCK_FILE), self.lock).context("write package-lock.json")?;
        run_npm(npm, folder)
    }
}

fn run_npm(npm: &Path, folder: &Path) -> Result<()> {
    let output = Command::new(npm)
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", npm.display()))?;
    ensure!(
        output.status.success(),
        "npm ci failed, which needs a connection to npm's registry ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests;
