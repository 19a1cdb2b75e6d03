//! `cargo xtask up | down`: a MongoDB and a brain for people to try things on, with secrets made for the purpose.

mod down;
mod up;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use test_mongo::{eventually, paths};

pub(crate) use down::run as down;
pub(crate) use up::run as up;

/// How long a brain has for its end, a drain included.
const END: Duration = Duration::from_secs(40);

/// Does the brain for people run?
pub(crate) fn brain_runs() -> bool {
    DevBrain::new().running().is_some()
}

/// Ends the brain for people, if it runs.
pub(crate) async fn end_brain() -> Result<()> {
    DevBrain::new().end().await.map(drop)
}

/// The brain of `cargo xtask up`, which may or may not run.
struct DevBrain {
    directory: PathBuf,
}

impl DevBrain {
    fn new() -> Self {
        Self {
            directory: paths::target().join("dev"),
        }
    }

    fn pid_file(&self) -> PathBuf {
        self.directory.join("brain.pid")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("brain.log")
    }

    fn token_file(&self) -> PathBuf {
        self.directory.join("internal-token")
    }

    /// The secret of tokens for a tenant's page and API.
    fn jwt_secret_file(&self) -> PathBuf {
        self.directory.join("jwt-secret")
    }

    /// What a shell reads to work with it.
    fn env_file(&self) -> PathBuf {
        self.directory.join("env")
    }

    /// The process, if it runs and is ours: process ids are used again, so a kept one proves nothing.
    fn running(&self) -> Option<Pid> {
        let (pid, line) = self.kept()?;
        line.contains(&*self.token_file().to_string_lossy())
            .then(|| Pid::from_raw(pid))
            .flatten()
    }

    /// Whether it was started without what `up` tells a brain now: by an earlier version of this.
    fn is_outdated(&self) -> bool {
        let secret = self.jwt_secret_file();
        self.running().is_some()
            && self
                .kept()
                .is_some_and(|(_, line)| !line.contains(&*secret.to_string_lossy()))
    }

    /// The process id that is kept, and the command line of the process that has it now.
    fn kept(&self) -> Option<(i32, String)> {
        let kept = fs::read_to_string(self.pid_file()).ok()?;
        let pid = kept.trim().parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&line).into_owned()))
    }

    /// Lets it drain, and kills it if it does not. Says whether it ran.
    async fn end(&self) -> Result<bool> {
        let Some(pid) = self.running() else {
            return Ok(false);
        };
        for signal in [Signal::TERM, Signal::KILL] {
            kill_process(pid, signal).context("end the brain")?;
            let ended = eventually("the brain's end", END, async || {
                Ok(self.running().is_none())
            });
            if ended.await.is_ok() {
                break;
            }
        }
        Ok(true)
    }
}
