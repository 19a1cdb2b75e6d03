use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};
use tempfile::tempdir;
use test_mongo::eventually;

use super::{LOCK_FILE, Packages};

const PACKAGES: Packages = Packages {
    what: "things",
    folder: "things",
    package: "{}",
    lock: "{ \"lockfileVersion\": 3 }",
};

/// Marks the run of this test program that is killed while it installs, and names its folder of tools.
const KILLED: &str = "TEST_PROCESS_KILLED_INSTALL";

const GOOD: &str = "mkdir node_modules && echo all > node_modules/all";
const FAILS: &str = "mkdir node_modules; echo 'no such registry' >&2; exit 1";
/// Ends when somebody clears away what it has done so far.
const HALTS: &str = "mkdir node_modules && while [ -d node_modules ]; do sleep 0.02; done";

fn npm(folder: &Path, script: &str) -> Result<PathBuf> {
    let path = folder.join("npm");
    fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn unfinished(tools: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(tools).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".things-"))
        .map(|entry| entry.path())
        .collect()
}

#[test]
fn second_time_npm_is_not_asked() -> Result<()> {
    let folder = tempdir()?;
    let tools = folder.path().join("tools");
    let kept = PACKAGES.install_once_by(&tools, || npm(folder.path(), GOOD))?;
    assert_eq!(PACKAGES.install_once_by(&tools, || bail!("asked"))?, kept);
    assert!(kept.join("node_modules/all").exists());
    assert!(unfinished(&tools).is_empty());
    Ok(())
}

#[test]
fn other_versions_are_replaced() -> Result<()> {
    let folder = tempdir()?;
    let tools = folder.path().join("tools");
    let kept = tools.join("things");
    fs::create_dir_all(kept.join("node_modules/old"))?;
    fs::write(kept.join(LOCK_FILE), "{}")?;
    PACKAGES.install_once_by(&tools, || npm(folder.path(), GOOD))?;
    assert!(kept.join("node_modules/all").exists());
    assert!(!kept.join("node_modules/old").exists());
    assert!(unfinished(&tools).is_empty());
    Ok(())
}

#[test]
fn failed_install_leaves_nothing_and_says_why() -> Result<()> {
    let folder = tempdir()?;
    let tools = folder.path().join("tools");
    let error = PACKAGES
        .install_once_by(&tools, || npm(folder.path(), FAILS))
        .unwrap_err();
    assert!(
        format!("{error:#}").contains("no such registry"),
        "{error:#}"
    );
    assert!(!tools.join("things").exists());
    assert!(unfinished(&tools).is_empty());
    Ok(())
}

#[tokio::test]
async fn killed_install_is_done_again() -> Result<()> {
    let folder = tempdir()?;
    let tools = folder.path().join("tools");
    let mut killed = Command::new(env::current_exe()?)
        .args(["--exact", "npm::tests::install_to_be_killed"])
        .arg("--ignored")
        .env(KILLED, folder.path())
        .stdout(Stdio::null())
        .spawn()?;
    let half = || {
        unfinished(&tools)
            .iter()
            .any(|folder| folder.join("node_modules").exists())
    };
    let started = eventually("half an install", Duration::from_secs(20), async || {
        Ok(half())
    })
    .await;
    killed.kill()?;
    killed.wait()?;
    started?;
    let kept = PACKAGES.install_once_by(&tools, || npm(folder.path(), GOOD))?;
    assert!(kept.join("node_modules/all").exists());
    assert!(unfinished(&tools).is_empty());
    Ok(())
}

#[test]
#[ignore = "a part of killed_install_is_done_again"]
fn install_to_be_killed() -> Result<()> {
    let Some(folder) = env::var_os(KILLED).map(PathBuf::from) else {
        return Ok(());
    };
    PACKAGES.install_once_by(&folder.join("tools"), || npm(&folder, HALTS))?;
    Ok(())
}
