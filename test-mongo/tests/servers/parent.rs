//! No server stays behind when its parent is killed with -9, not even a paused one.

use std::env;
use std::fs;
use std::future::pending;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mongodb::bson::doc;
use rustix::process::{Pid, test_kill_process};
use test_mongo::{Mongod, TestMongo, admin_command, eventually};

/// Marks the run of this test binary that is the parent to be killed.
const PARENT: &str = "TEST_MONGO_PARENT";

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn servers_end_with_a_killed_parent() -> Result<()> {
    let mut parent = Command::new(env::current_exe()?)
        .args([
            "--exact",
            "parent::parent_to_be_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(PARENT, "1")
        .env_remove("MONGODB_URI")
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(parent.stdout.take().context("the parent's output")?);
    let servers: Vec<(i32, PathBuf)> = output
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| {
            let (pid, directory) = line.strip_prefix("server ")?.split_once(' ')?;
            Some((pid.parse().ok()?, PathBuf::from(directory)))
        })
        .take(4)
        .collect();
    parent.kill()?;
    parent.wait()?;
    ensure!(servers.len() == 4, "the parent started {servers:?}");
    for (pid, _) in &servers {
        eventually("the server's end", LONG, async || Ok(!runs(*pid))).await?;
    }
    // The next server removes what nobody watched: the data of one that had been killed before.
    let _next = Mongod::start().await?;
    for (_, directory) in &servers {
        eventually("its data's end", LONG, async || Ok(!directory.exists())).await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "a part of servers_end_with_a_killed_parent"]
async fn parent_to_be_killed() -> Result<()> {
    if env::var_os(PARENT).is_none() {
        return Ok(());
    }
    let running = Mongod::start().await?;
    let paused = Mongod::start().await?;
    paused.pause()?;
    let mut killed = Mongod::start().await?;
    let killed_pid = killed.pid().context("the killed server's id")?;
    killed.kill()?;
    report(killed_pid.cast_signed(), &killed.directory().join("data"))?;
    let shared = TestMongo::new().await?;
    for uri in [running.uri(), shared.uri().to_owned()] {
        let (pid, data) = identity(&uri).await?;
        report(pid, &data)?;
    }
    let pid = paused.pid().context("the paused server's id")?;
    report(pid.cast_signed(), &paused.directory().join("data"))?;
    pending::<()>().await;
    Ok(())
}

/// What the server says of itself: its process id and the folder of its data.
async fn identity(uri: &str) -> Result<(i32, PathBuf)> {
    let status = admin_command(uri, doc! { "serverStatus": 1 }).await?;
    let options = admin_command(uri, doc! { "getCmdLineOpts": 1 }).await?;
    let pid = i32::try_from(status.get_i64("pid")?)?;
    let storage = options.get_document("parsed")?.get_document("storage")?;
    Ok((pid, PathBuf::from(storage.get_str("dbPath")?)))
}

fn report(pid: i32, data: &Path) -> Result<()> {
    Ok(writeln!(io::stdout(), "\nserver {pid} {}", data.display())?)
}

/// Where nobody reaps orphans a dead server remains as a zombie, which does not count.
fn runs(pid: i32) -> bool {
    let exists = Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok());
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    exists && !stat.contains(") Z ")
}
