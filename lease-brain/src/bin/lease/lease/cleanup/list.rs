//! `lease cleanup list`.

use std::process::ExitCode;

use clap::Args;

use super::{revoking, warn_if_nobody};
use crate::connection::{Connection, pods};
use crate::lease::found::Found;
use crate::lease::list::HolderFilter;
use crate::output;

/// Show what is left to do for revoked leases: what failed at the top, then what is tried next.
#[derive(Args)]
#[command(
    after_help = "Example:\n  lease cleanup list --failed\n  lease cleanup list --json | jq -r '.[].token'"
)]
pub(crate) struct Opts {
    #[command(flatten)]
    filter: HolderFilter,
    /// Only what did not succeed ten times, or cannot be read.
    #[arg(long)]
    failed: bool,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let filter = opts.filter.filter()?;
    let database = connection.database().await?;
    let mut leases = revoking(filter, &database).await?;
    leases.retain(|lease| !opts.failed || lease.is_failed());
    leases.sort_by_key(|lease| (!lease.is_failed(), lease.next_try_in_seconds()));
    if !leases.is_empty() {
        warn_if_nobody(&pods(&database).await?);
    }
    if json {
        output::json(&leases)?;
        return Ok(ExitCode::SUCCESS);
    }
    if leases.is_empty() {
        eprintln!("no clean-ups match");
        return Ok(ExitCode::SUCCESS);
    }
    let header = [
        "TOKEN",
        "RESOURCE",
        "TYPE",
        "TENANT/PROJECT",
        "POD",
        "REASON",
        "PHASE",
        "ATTEMPTS",
        "NEXT TRY",
        "LAST ERROR",
    ];
    output::table(header, leases.iter().map(row))?;
    Ok(ExitCode::SUCCESS)
}

fn row(lease: &Found) -> [String; 10] {
    [
        lease.token().to_string(),
        lease.resource(),
        lease.lease_type(),
        lease.place(),
        lease.pod(),
        lease.reason(),
        lease.phase(),
        lease.attempts(),
        lease.next_try(),
        lease.last_error(),
    ]
}
