//! One running server with a folder of its own.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;
use test_mongo::log_tail;
use test_process::{Process, surroundings};
use tokio::time::{Instant, sleep};

use super::tools::Tools;

/// Makes a server listen on loopback alone and say where.
const LOOPBACK: &str = include_str!("../../npm/loopback.cjs");
const LISTENS: &str = "test-mcp: listens on 127.0.0.1 port ";

const START: Duration = Duration::from_secs(60);

/// A Node program that listens, in a folder that is removed after its end.
pub(super) struct Server {
    // Dropped in this order.
    process: Process,
    directory: TempDir,
    port: u16,
}

impl Server {
    /// In the system's folder for such things, as its path is short: the browser makes a socket below it, whose
    /// path must not be longer than about a hundred characters.
    pub(super) fn directory_for(name: &str) -> Result<TempDir> {
        tempfile::Builder::new()
            .prefix(&format!("mcp-{name}-"))
            .tempdir()
            .context("create a server's folder")
    }

    /// Starts a program and waits until it listens.
    pub(super) async fn start<A: AsRef<OsStr>>(
        tools: &Tools,
        program: PathBuf,
        arguments: impl IntoIterator<Item = A>,
        variables: &[(&str, &str)],
        directory: TempDir,
    ) -> Result<Self> {
        let log = log_of(directory.path());
        // Its copy there makes every server name its folder in its command line.
        let loopback = directory.path().join("loopback.cjs");
        fs::write(&loopback, LOOPBACK).context("write loopback.cjs")?;
        let mut command = Command::new(&tools.node);
        command
            .arg("--require")
            .arg(loopback)
            .arg(program)
            .args(arguments)
            .envs(variables.iter().copied())
            .envs(surroundings(directory.path())?)
            .current_dir(directory.path());
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("PLAYWRIGHT_") {
                command.env_remove(name);
            }
        }
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let mut process = Process::spawn(&command, file, directory.path())?;
        let port = listening_port(&mut process, &log).await?;
        Ok(Self {
            process,
            directory,
            port,
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn log(&self) -> Result<String> {
        let log = fs::read(log_of(self.directory.path())).context("read the server's log")?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    pub(super) fn log_tail(&self) -> String {
        log_tail(&log_of(self.directory.path()))
    }
}

fn log_of(directory: &Path) -> PathBuf {
    directory.join("server.log")
}

async fn listening_port(process: &mut Process, log: &Path) -> Result<u16> {
    let deadline = Instant::now() + START;
    loop {
        // Its end is looked at before its log, so that the log is complete once it has ended.
        let ended = process.ended()?;
        let text = fs::read(log).context("read the server's log")?;
        if let Some(port) = port_in(&String::from_utf8_lossy(&text)) {
            return Ok(port);
        }
        if let Some(status) = ended {
            bail!("the server ended at once ({status}); {}", log_tail(log));
        }
        if Instant::now() >= deadline {
            bail!(
                "the server does not listen after {START:?}; {}",
                log_tail(log)
            );
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Only of a whole line.
fn port_in(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once(LISTENS)?;
    rest.split_once('\n')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::port_in;

    #[test]
    fn half_a_line_names_no_port() {
        assert_eq!(
            port_in("Starting\ntest-mcp: listens on 127.0.0.1 port 40"),
            None
        );
        let whole = "Starting\ntest-mcp: listens on 127.0.0.1 port 4096\nready\n";
        assert_eq!(port_in(whole), Some(4096));
        assert_eq!(port_in("test-mcp: listens on :: port 4096\n"), None);
    }
}
