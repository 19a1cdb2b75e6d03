//! `lease cleanup …`: what is left to do for revoked leases.

mod abandon;
mod list;
mod retry;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use lease_brain::cluster::PodLiveness;
use lease_shared::{BrokenLease, Filter, HolderState, LeaseToken};
use mongodb::Database;

use super::found::{Found, cure};
use crate::connection::Connection;
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
    lease: Option<Found>,
}

impl Which {
    async fn find(self, database: &Database) -> anyhow::Result<Vec<Named>> {
        if self.all_failed {
            let mut leases = revoking(Filter::default(), database).await?;
            leases.retain(Found::is_failed);
            let named = |lease: Found| Named {
                token: lease.token().clone(),
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
        let mut named = Vec::new();
        for token in tokens {
            let lease = Found::by_token(&token, database).await?;
            named.push(Named { token, lease });
        }
        Ok(named)
    }
}

impl Named {
    /// The lease, if it is being revoked; else what it is instead.
    fn revoking(&self) -> Result<&Found, String> {
        let Self { token, lease } = self;
        match lease {
            None => Err(nothing(token)),
            Some(Found::Broken(lease)) if lease.state != Some(HolderState::Revoking) => {
                let BrokenLease { unreadable, .. } = &**lease;
                let cure = cure(lease);
                Err(format!(
                    "{token} is not being revoked, and cannot be read: {unreadable}: {cure}"
                ))
            }
            Some(lease) if !lease.is_revoking() => Err(format!(
                "{token} is not being revoked, so there is nothing to clean up: `lease revoke {token}` revokes it"
            )),
            Some(lease) => Ok(lease),
        }
    }
}

fn nothing(token: &LeaseToken) -> String {
    format!("no clean-up of {token}: it is done, or never was")
}

/// The leases that are being revoked and match, broken ones among them.
async fn revoking(filter: Filter, database: &Database) -> anyhow::Result<Vec<Found>> {
    let filter = Filter {
        state: Some(HolderState::Revoking),
        ..filter
    };
    let listed = Found::all(&filter, database).await?;
    output::unreadable(&listed.unreadable);
    Ok(listed.entries)
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
