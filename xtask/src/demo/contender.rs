//! One contending process: some loops that run the job under a lease again and again, until standard input ends.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{CONTENDERS, LEASE, LOOPS_PER_USER, PROJECTS, Store, TENANTS, USERS};

/// The hidden task of a contender.
#[derive(clap::Args)]
pub(crate) struct Opts {
    #[arg(long)]
    index: usize,
    #[arg(long)]
    journal: PathBuf,
    #[arg(long)]
    lease: PathBuf,
}

/// What a contender tells, one JSON object a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum News {
    /// A `lease run` was started by this loop.
    Started { slot: usize, wrapper: u32 },
    /// It ended with this code; none if it was killed.
    Ended { slot: usize, code: Option<i32> },
}

pub(crate) async fn run(opts: Opts) -> Result<()> {
    let store = Store {
        uri: std::env::var("MONGODB_URI").context("MONGODB_URI")?,
        database: std::env::var("LEASE_DATABASE").context("LEASE_DATABASE")?,
        lease: opts.lease,
    };
    let (stop, stopped) = watch::channel(false);
    let mut loops = JoinSet::new();
    for (slot, who) in everybody()
        .enumerate()
        .filter(|(slot, _)| slot % CONTENDERS == opts.index)
    {
        let contender = Loop {
            store: store.clone(),
            journal: opts.journal.clone(),
            index: opts.index,
            slot,
            who,
            stopped: stopped.clone(),
        };
        loops.spawn(contender.run());
    }
    let mut nothing = Vec::new();
    tokio::io::stdin().read_to_end(&mut nothing).await?;
    stop.send_replace(true);
    while let Some(ended) = loops.join_next().await {
        ended??;
    }
    Ok(())
}

/// Each user as often as it has loops; the two loops of one user fall to different processes.
fn everybody() -> impl Iterator<Item = [&'static str; 3]> {
    let users = TENANTS.into_iter().flat_map(|tenant| {
        PROJECTS
            .into_iter()
            .flat_map(move |project| USERS.into_iter().map(move |user| [tenant, project, user]))
    });
    users.flat_map(|who| std::iter::repeat_n(who, LOOPS_PER_USER))
}

struct Loop {
    store: Store,
    journal: PathBuf,
    index: usize,
    slot: usize,
    who: [&'static str; 3],
    stopped: watch::Receiver<bool>,
}

impl Loop {
    async fn run(self) -> Result<()> {
        let job = std::env::current_exe()?;
        let [tenant, project, user] = self.who;
        // A user of one project is another person than a user of the same name in the other.
        let user = format!("{user}-{project}");
        let whose = ["--tenant", tenant, "--project", project, "--user", &user];
        while !*self.stopped.borrow() {
            let mut command = self.store.command();
            command
                .args(["run", LEASE])
                .args(whose)
                .arg("--")
                .arg(&job)
                .arg("__job")
                .args(whose);
            command.arg("--journal").arg(&self.journal);
            command.args([
                "--contender",
                &self.index.to_string(),
                "--slot",
                &self.slot.to_string(),
            ]);
            let child = command.stderr(Stdio::piped()).spawn()?;
            let slot = self.slot;
            tell(&News::Started {
                slot,
                wrapper: child.id().unwrap_or(0),
            })?;
            let ended = child.wait_with_output().await?;
            let code = ended.status.code();
            // To be told busy is part of the game, and so is to be killed; what else goes wrong is to be seen.
            if !matches!(code, None | Some(0 | 69 | 75 | 76)) {
                eprintln!("{}", String::from_utf8_lossy(&ended.stderr).trim());
            }
            tell(&News::Ended { slot, code })?;
        }
        Ok(())
    }
}

fn tell(news: &News) -> Result<()> {
    println!("{}", serde_json::to_string(news)?);
    Ok(())
}
