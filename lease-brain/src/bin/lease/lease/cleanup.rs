//! `lease cleanup …`: what is left to do for revoked leases.

mod abandon;
mod list;
mod retry;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use lease_brain::cluster::PodLiveness;
use lease_brain::with_pod::WithPod;
use lease_shared::{CleanupPhase, Filter, HolderState, LeaseToken, LeaseViews};
use mongodb::Database;

use super::pods::{with_pod, with_pods};
use crate::connection::{Connection, asked};
use crate::exit::{LOST, USAGE, coded};
use crate::output;

/// Look at, retry and give up the clean-ups of revoked leases.
///
/// A brain runs them by itself, and tries again what did not succeed; after ten times it marks it as failed and tries
/// hourly. These commands work on the store and need no brain, but what is retried needs one to run.
#[derive(Args)]
pub(crate) struct Opts {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(list::Opts),
    Retry(retry::Opts),
    Abandon(abandon::Opts),
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    match opts.command {
        Command::List(opts) => list::run(opts, connection, json).await,
        Command::Retry(opts) => retry::run(opts, connection, json).await,
        Command::Abandon(opts) => abandon::run(opts, connection, json).await,
    }
}

/// Which clean-ups.
#[derive(Args)]
struct Which {
    /// The tokens of the leases, as `lease cleanup list` shows them.
    #[arg(required_unless_present = "all_failed", conflicts_with = "all_failed")]
    tokens: Vec<String>,
    /// All that are marked as failed.
    #[arg(long)]
    all_failed: bool,
}

/// A lease that was named, and what there is of it.
struct Named {
    token: LeaseToken,
    lease: Option<WithPod>,
}

impl Which {
    async fn find(self, database: &Database) -> anyhow::Result<Vec<Named>> {
        if self.all_failed {
            let mut leases = revoking(Filter::default(), database).await?;
            leases.retain(is_failed);
            let named = |lease: WithPod| Named {
                token: lease.holder.token.clone(),
                lease: Some(lease),
            };
            return Ok(leases.into_iter().map(named).collect());
        }
        let tokens: Vec<_> = self
            .tokens
            .into_iter()
            .map(LeaseToken::new)
            .collect::<Result<_, _>>()?;
        for (at, token) in tokens.iter().enumerate() {
            if tokens[..at].contains(token) {
                return Err(coded(USAGE, format!("{token} is named twice")));
            }
        }
        let views = LeaseViews::new(database.clone());
        let mut named = Vec::new();
        for token in tokens {
            let lease = match asked(views.holder(&token).await)? {
                Some(holder) => Some(with_pod(holder, database).await?),
                None => None,
            };
            named.push(Named { token, lease });
        }
        Ok(named)
    }
}

impl Named {
    /// The lease, if it is being revoked; else what it is instead.
    fn revoking(&self) -> Result<&WithPod, String> {
        let Self { token, lease } = self;
        match lease {
            None => Err(nothing(token)),
            Some(lease) if lease.holder.state != HolderState::Revoking => Err(format!(
                "{token} is not being revoked, so there is nothing to clean up: `lease revoke {token}` revokes it"
            )),
            Some(lease) => Ok(lease),
        }
    }
}

fn nothing(token: &LeaseToken) -> String {
    format!("no clean-up of {token}: it is done, or never was")
}

fn is_failed(lease: &WithPod) -> bool {
    let cleanup = lease.holder.cleanup.as_ref();
    cleanup.is_some_and(|cleanup| cleanup.phase == CleanupPhase::Failed)
}

/// The leases that are being revoked and match.
async fn revoking(filter: Filter, database: &Database) -> anyhow::Result<Vec<WithPod>> {
    let filter = Filter {
        state: Some(HolderState::Revoking),
        ..filter
    };
    let listed = asked(LeaseViews::new(database.clone()).holders(&filter).await)?;
    output::unreadable(&listed.unreadable);
    with_pods(listed.entries, database).await
}

/// Says so if there is nobody to run a clean-up.
fn warn_if_nobody(liveness: &PodLiveness) {
    if !liveness.pods().iter().any(|pod| pod.alive) {
        eprintln!("lease: warning: no pod is alive, so nobody runs clean-ups: start a brain");
    }
}

/// One clean-up that could not be changed is an error, as of any other command; of several, each has its line.
fn refused(problems: &[(u8, String)], of: usize) -> anyhow::Result<()> {
    match problems {
        [] => Ok(()),
        [(code, problem)] if of == 1 => Err(coded(*code, problem)),
        several => {
            for (_, problem) in several {
                eprintln!("lease: {}", output::printable(problem));
            }
            let problem = format!("{} of {of} were left as they are", several.len());
            Err(coded(crate::exit::PARTIAL, problem))
        }
    }
}

/// The code for a lease that is not there to be cleaned up.
const NOT_THERE: u8 = LOST;
/// What is said where all that failed are none.
const NONE_FAILED: &str = "no clean-up is marked as failed";
