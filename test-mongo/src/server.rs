//! One server of one's own.

mod directory;
mod launch;
mod process;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

pub use launch::{free_port, log_tail, server_arguments};

use crate::command::{direct_client, direct_uri, single_node_uri};
use crate::replication::{self, start_replication};
use directory::Directory;
use process::Process;

/// A `mongod` on loopback, started as a replica set of one node; it ends with this value.
///
/// It also ends when this process is killed with -9, and also while it is paused: a small shell holds a
/// pipe to this process and kills the server when the pipe closes. Its data goes with it.
pub struct Mongod {
    process: Option<Process>,
    program: PathBuf,
    port: u16,
    directory: Directory,
}

impl Mongod {
    /// Starts a server and waits until it takes writes.
    pub async fn start() -> Result<Self> {
        let server = Self::launch().await?;
        start_replication(server.port)
            .await
            .with_context(|| server.log_tail())?;
        Ok(server)
    }

    /// Starts a server that listens but belongs to no replica set yet.
    pub(crate) async fn launch() -> Result<Self> {
        let program = tokio::task::spawn_blocking(crate::binary::find).await??;
        let directory = Directory::create()?;
        let (process, port) = launch::on_free_port(&program, &directory).await?;
        Ok(Self {
            process: Some(process),
            program,
            port,
            directory,
        })
    }

    /// The connection string of the replica set that this server is.
    pub fn uri(&self) -> String {
        single_node_uri(self.port)
    }

    /// The connection string of this very node, whatever its state in the replica set.
    pub fn direct_uri(&self) -> String {
        direct_uri(self.port)
    }

    /// The port, the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id; none after `kill` or `stop`.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// The folder of its data and its log.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The last lines of the server's log.
    pub fn log_tail(&self) -> String {
        log_tail(&self.directory.log())
    }

    /// Stops the process in its tracks (SIGSTOP): connections stay open and nothing answers. When this
    /// returns, it stands still.
    pub fn pause(&self) -> Result<()> {
        self.running()?.pause()
    }

    /// Lets a paused process go on (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    /// Ends the process as a crash would (SIGKILL), and waits for its end. Its data stays.
    pub fn kill(&mut self) -> Result<()> {
        self.running()?;
        self.process = None;
        Ok(())
    }

    /// Ends the process as an operator would (SIGTERM), and waits for its end. Its data stays.
    pub async fn stop(&mut self) -> Result<()> {
        self.running()?.signal(Signal::CONT)?;
        self.running()?.signal(Signal::TERM)?;
        if let Some(process) = &mut self.process {
            let ended = process.wait_for_end().await;
            ended.with_context(|| log_tail(&self.directory.log()))?;
        }
        self.process = None;
        Ok(())
    }

    /// Starts it again on its port and data, after a stop where it still runs, and waits until it takes writes.
    pub async fn restart(&mut self) -> Result<()> {
        self.relaunch().await?;
        let client = direct_client(self.port).await?;
        replication::wait_for_state(&client, "isWritablePrimary")
            .await
            .with_context(|| self.log_tail())
    }

    /// The same, waiting only until it listens.
    pub(crate) async fn relaunch(&mut self) -> Result<()> {
        if self.process.is_some() {
            self.stop().await?;
        }
        let started = launch::on_port(&self.program, &self.directory, self.port).await?;
        self.process = Some(started);
        Ok(())
    }

    fn running(&self) -> Result<&Process> {
        self.process.as_ref().context("the server is not running")
    }
}
