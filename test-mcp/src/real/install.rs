//! Installs the servers from npm, whole or not at all.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

const PACKAGE: &str = include_str!("../../npm/package.json");

/// Pins every package by version and digest. Its copy in the installed folder says what is installed there.
const LOCK: &str = include_str!("../../npm/package-lock.json");
const LOCK_FILE: &str = "package-lock.json";

const SCRATCH: &str = ".mcp-";

/// The folder below `tools` with the servers of [`LOCK`], installed now unless it is there.
///
/// It comes into being by renaming a finished one, so a folder that is there is complete. A file lock makes a
/// second process wait and find it.
pub(super) fn once(tools: &Path, npm: impl FnOnce() -> Result<PathBuf>) -> Result<PathBuf> {
    let kept = tools.join("mcp");
    if is_current(&kept) {
        return Ok(kept);
    }
    fs::create_dir_all(tools).with_context(|| format!("create {}", tools.display()))?;
    let lock = File::create(tools.join(".installing")).context("open the lock of tools")?;
    lock.lock().context("lock the folder of tools")?;
    if is_current(&kept) {
        return Ok(kept);
    }
    let npm = npm()?;
    remove_unfinished(tools);
    let scratch = scratch(tools)?;
    eprintln!("installing MCP servers from npm ...");
    install(&npm, scratch.path())?;
    let replaced = self::scratch(tools)?;
    if kept.exists() {
        fs::rename(&kept, replaced.path().join("mcp")).context("put the old servers aside")?;
    }
    fs::rename(scratch.keep(), &kept).with_context(|| format!("place {}", kept.display()))?;
    Ok(kept)
}

fn is_current(kept: &Path) -> bool {
    fs::read(kept.join(LOCK_FILE)).is_ok_and(|installed| installed == LOCK.as_bytes())
}

/// In the folder of its destination, since a rename is atomic only within one file system.
fn scratch(tools: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(SCRATCH)
        .tempdir_in(tools)
        .context("create a scratch folder")
}

/// Removes what a killed process has left. An npm that still writes there does not keep us from going on.
fn remove_unfinished(tools: &Path) {
    for entry in fs::read_dir(tools).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(SCRATCH)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            eprintln!("test-mcp: remove {}: {error}", entry.path().display());
        }
    }
}

fn install(npm: &Path, folder: &Path) -> Result<()> {
    fs::write(folder.join("package.json"), PACKAGE).context("write package.json")?;
    fs::write(folder.join(LOCK_FILE), LOCK).context("write package-lock.json")?;
    let output = Command::new(npm)
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1")
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
