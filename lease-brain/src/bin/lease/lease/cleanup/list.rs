//! `lease cleanup list`.

use std::process::ExitCode;

use clap::Args;
use lease_brain::with_pod::WithPod;
use lease_brain::words;
use lease_shared::{CleanupPhase, HolderView};

use super::{is_failed, revoking, warn_if_nobody};
use crate::connection::{Connection, pods};
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
    /// Only what did not succeed ten times.
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
    leases.retain(|lease| !opts.failed || is_failed(lease));
    leases.sort_by_key(|lease| soonest_trouble(&lease.holder));
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

fn soonest_trouble(holder: &HolderView) -> (bool, i64) {
    let cleanup = holder.cleanup.as_ref();
    let failed = cleanup.is_some_and(|cleanup| cleanup.phase == CleanupPhase::Failed);
    (
        !failed,
        cleanup.map_or(0, |cleanup| cleanup.next_try_in_seconds),
    )
}

fn row(lease: &WithPod) -> [String; 10] {
    let holder = &lease.holder;
    let cleanup = holder.cleanup.as_ref();
    let reason = holder
        .revocation_reason
        .map_or("-", |reason| reason.as_str());
    let of =
        |part: fn(&lease_shared::CleanupView) -> String| cleanup.map_or_else(String::new, part);
    [
        holder.token.to_string(),
        holder.resource.clone(),
        holder.lease_type.clone(),
        format!("{}/{}", holder.tenant, holder.project),
        lease.pod_in_short(),
        reason.to_owned(),
        of(words::phase),
        of(|cleanup| cleanup.attempts.to_string()),
        of(words::next_try),
        of(|cleanup| cleanup.last_error.clone().unwrap_or_else(|| "-".to_owned())),
    ]
}
