//! The contending processes, as the demo sees them.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::contender::News;
use super::journal::{Entry, Journal};
use super::{CONTENDERS, Store};

/// How the `lease run`s ended so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcomes {
    pub(crate) done: usize,
    pub(crate) busy: usize,
    pub(crate) lost: usize,
    pub(crate) unavailable: usize,
    pub(crate) failed: usize,
    wrappers: HashMap<usize, u32>,
}

/// All contenders.
pub(crate) struct Fleet {
    children: Vec<Child>,
    readers: JoinSet<Result<()>>,
    outcomes: Arc<Mutex<Outcomes>>,
}

impl Fleet {
    pub(crate) fn start(store: &Store, journal: &Journal) -> Result<Self> {
        let outcomes = Arc::new(Mutex::new(Outcomes::default()));
        let mut readers = JoinSet::new();
        let mut children = Vec::new();
        for index in 0..CONTENDERS {
            let mut command = Command::new(std::env::current_exe()?);
            command
                .args(["__contender", "--index", &index.to_string(), "--journal"])
                .arg(journal.path());
            command.arg("--lease").arg(&store.lease);
            command
                .env("MONGODB_URI", &store.uri)
                .env("LEASE_DATABASE", &store.database);
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true);
            let mut child = command.spawn().context("start a contender")?;
            let stdout = child.stdout.take().context("no output of a contender")?;
            let outcomes = Arc::clone(&outcomes);
            readers.spawn(async move {
                let mut lines = BufReader::new(stdout).lines();
                while let Some(line) = lines.next_line().await? {
                    let news: News = serde_json::from_str(&line)?;
                    outcomes
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .hear(&news);
                }
                Ok(())
            });
            children.push(child);
        }
        Ok(Self {
            children,
            readers,
            outcomes,
        })
    }

    /// Fails if a contender has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        for child in &mut self.children {
            if let Some(status) = child.try_wait()? {
                anyhow::bail!("a contender ended: {status}");
            }
        }
        Ok(())
    }

    pub(crate) fn outcomes(&self) -> Outcomes {
        self.outcomes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The `lease run` that an entry belongs to.
    pub(crate) fn wrapper_of(&self, entry: &Entry) -> Option<i32> {
        let wrapper = *self.outcomes().wrappers.get(&entry.slot)?;
        i32::try_from(wrapper).ok()
    }

    /// Tells them to stop, and waits until their last commands have ended.
    pub(crate) async fn stop(mut self) -> Result<Outcomes> {
        for child in &mut self.children {
            drop(child.stdin.take());
        }
        for child in &mut self.children {
            let status = child.wait().await?;
            ensure!(status.success(), "a contender failed: {status}");
        }
        while let Some(reader) = self.readers.join_next().await {
            reader??;
        }
        Ok(self.outcomes())
    }
}

impl Outcomes {
    fn hear(&mut self, news: &News) {
        match *news {
            News::Started { slot, wrapper } => {
                self.wrappers.insert(slot, wrapper);
            }
            News::Ended { slot, code } => {
                self.wrappers.remove(&slot);
                match code {
                    Some(0) => self.done += 1,
                    Some(75) => self.busy += 1,
                    Some(76) => self.lost += 1,
                    Some(69) => self.unavailable += 1,
                    // By us.
                    None => {}
                    Some(_) => self.failed += 1,
                }
            }
        }
    }
}

pub(crate) fn kill_process(pid: i32) -> Result<()> {
    signal(pid, Signal::KILL)
}

pub(crate) fn signal(pid: i32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid).context("no process")?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

pub(crate) fn kill_group(leader: i32) -> Result<()> {
    let pid = Pid::from_raw(leader).context("no process")?;
    // It may be gone already: its guardian was killed a moment ago.
    match kill_process_group(pid, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Dead, whether or not somebody has taken note of it.
pub(crate) fn is_gone(pid: i32) -> bool {
    let alive =
        Pid::from_raw(pid).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok());
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))
        .unwrap_or_default();
    let zombie = stat
        .rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('Z'));
    !alive || zombie
}
