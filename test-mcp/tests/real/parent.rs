//! No server and no browser stays behind when its parent is killed with -9.

use std::env;
use std::future::pending;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use test_mcp::real::{
    Everything, PAGE, Playwright, Profile, browsers_of, processes_mentioning, tools,
};
use test_mongo::eventually;

use crate::asking::Session;

/// Marks the run of this test binary that is the parent to be killed.
const PARENT: &str = "TEST_MCP_PARENT";

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn servers_end_with_a_killed_parent() -> Result<()> {
    if tools()?.is_none() {
        return Ok(());
    }
    let mut parent = Command::new(env::current_exe()?)
        .args(["--exact", "parent::parent_to_be_killed"])
        .args(["--ignored", "--nocapture"])
        .env(PARENT, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(parent.stdout.take().context("the parent's output")?);
    let directories: Vec<PathBuf> = output
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| Some(PathBuf::from(line.strip_prefix("server ")?)))
        .take(2)
        .collect();
    let running = directories
        .iter()
        .map(|directory| processes_mentioning(directory));
    let running = running.collect::<Result<Vec<_>>>();
    let browsers = directories.iter().map(|directory| browsers_of(directory));
    let browsers = browsers.sum::<Result<usize>>();
    parent.kill()?;
    parent.wait()?;
    ensure!(directories.len() == 2, "the parent started {directories:?}");
    assert!(running?.iter().all(|processes| !processes.is_empty()));
    assert_eq!(browsers?, 1);
    for directory in &directories {
        eventually("the server's end", LONG, async || {
            Ok(processes_mentioning(directory)?.is_empty() && !directory.exists())
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "a part of servers_end_with_a_killed_parent"]
async fn parent_to_be_killed() -> Result<()> {
    if env::var_os(PARENT).is_none() {
        return Ok(());
    }
    let Some(tools) = tools()? else { return Ok(()) };
    let everything = Everything::http(&tools).await?;
    let playwright = Playwright::http(&tools, Profile::Isolated).await?;
    let (session, _) = Session::open(&playwright.url()).await?;
    session
        .call("browser_navigate", json!({ "url": PAGE }))
        .await?;
    for directory in [everything.directory(), playwright.directory()] {
        writeln!(io::stdout(), "\nserver {}", directory.display())?;
    }
    pending::<()>().await;
    Ok(())
}
