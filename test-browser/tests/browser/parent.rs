//! No driver and no browser stays behind, also when their parent is killed with -9.

use std::env;
use std::future::pending;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use test_browser::{Browser, View, tools};
use test_mongo::eventually;
use test_process::{browsers_of, processes_mentioning};

/// Marks the run of this test binary that is the parent to be killed.
const PARENT: &str = "TEST_BROWSER_PARENT";

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn dropped_driver_leaves_nothing() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let browser = Browser::start(&tools).await?;
    let directory = browser.directory().to_owned();
    let page = browser.open(View::DESKTOP).await?;
    assert_eq!(browsers_of(&directory)?, 1);
    drop(browser);
    assert_eq!(processes_mentioning(&directory)?, [0; 0]);
    assert!(!directory.exists());
    drop(page);
    Ok(())
}

#[tokio::test]
async fn browsers_end_with_a_killed_parent() -> Result<()> {
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
    let directory = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(PathBuf::from(line.strip_prefix("driver ")?)));
    let browsers = directory.as_deref().map(browsers_of);
    parent.kill()?;
    parent.wait()?;
    let directory = directory.context("the parent started no driver")?;
    assert_eq!(browsers.transpose()?, Some(2));
    eventually("the driver's end", LONG, async || {
        Ok(processes_mentioning(&directory)?.is_empty() && !directory.exists())
    })
    .await
}

#[tokio::test]
#[ignore = "a part of browsers_end_with_a_killed_parent"]
async fn parent_to_be_killed() -> Result<()> {
    if env::var_os(PARENT).is_none() {
        return Ok(());
    }
    let Some(tools) = tools()? else { return Ok(()) };
    let browser = Browser::start(&tools).await?;
    let _pages = (
        browser.open(View::DESKTOP).await?,
        browser.open(View::PHONE).await?,
    );
    writeln!(io::stdout(), "\ndriver {}", browser.directory().display())?;
    pending::<()>().await;
    Ok(())
}
