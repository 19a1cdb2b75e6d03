//! A program ends with whoever holds it, also when that is killed with -9, and so does what it has started.

use std::env;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::park;
use std::time::Duration;

use anyhow::{Context as _, Result};
use test_mongo::eventually;
use test_process::{Process, processes_mentioning};

/// Marks the run of this test binary that is the parent to be killed.
const PARENT: &str = "TEST_PROCESS_PARENT";

const LONG: Duration = Duration::from_secs(20);

/// A program, and another that it starts, which leaves its group and hears no TERM.
const PROGRAM: &str = r#"setsid sh -c 'trap "" TERM; while :; do sleep 0.1; done' "$0" &
while :; do sleep 0.1; done"#;

/// Names its folder in its command line, as does what it starts.
fn start(directory: &Path) -> Result<Process> {
    let mut command = Command::new("sh");
    command.args(["-c", PROGRAM]).arg(directory);
    let log = File::create(directory.join("log"))?;
    Process::spawn(&command, log, directory)
}

async fn both_run(directory: &Path) -> Result<()> {
    eventually("both programs", LONG, async || {
        Ok(processes_mentioning(directory)?.len() == 2)
    })
    .await
}

#[tokio::test]
async fn dropped_process_leaves_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let process = start(folder.path())?;
    both_run(folder.path()).await?;
    drop(process);
    assert_eq!(processes_mentioning(folder.path())?, [0; 0]);
    Ok(())
}

#[tokio::test]
async fn process_ends_with_a_killed_parent() -> Result<()> {
    let mut parent = Command::new(env::current_exe()?)
        .args(["--exact", "parent::parent_to_be_killed"])
        .args(["--ignored", "--nocapture"])
        .env(PARENT, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(parent.stdout.take().context("the parent's output")?);
    let directory = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(PathBuf::from(line.strip_prefix("program ")?)));
    let running = match &directory {
        Some(directory) => both_run(directory).await,
        None => Ok(()),
    };
    parent.kill()?;
    parent.wait()?;
    let directory = directory.context("the parent started no program")?;
    running?;
    eventually("the program's end", LONG, async || {
        Ok(processes_mentioning(&directory)?.is_empty() && !directory.exists())
    })
    .await
}

#[test]
#[ignore = "a part of process_ends_with_a_killed_parent"]
fn parent_to_be_killed() -> Result<()> {
    if env::var_os(PARENT).is_none() {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let _process = start(folder.path())?;
    writeln!(io::stdout(), "\nprogram {}", folder.path().display())?;
    loop {
        park();
    }
}
