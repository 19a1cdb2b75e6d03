//! `lease reconcile`.

use std::process::ExitCode;

use clap::Args;
use lease_shared::Reconciler;

use crate::connection::{Connection, asked};
use crate::output;

/// Free the slots that nobody holds, and show where counters and holders differ otherwise.
///
/// Safe at any time and beside any traffic: a slot is freed only if its holder is gone, or is being revoked with its slot
/// to come back at once.
#[derive(Args)]
#[command(after_help = "Example:\n  lease reconcile --dry-run")]
pub(crate) struct Opts {
    /// Show what would be freed, and free nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let reconciler = Reconciler::new(connection.database().await?);
    let report = asked(reconciler.reconcile(opts.dry_run).await)?;
    if json {
        output::json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (freed, removed) = if opts.dry_run {
        ("would free", "would remove")
    } else {
        ("freed", "removed")
    };
    for orphan in &report.orphans {
        output::line(&output::printable(&format!(
            "{freed} {} of {}",
            orphan.token, orphan.counter
        )))?;
    }
    for counter in &report.removed {
        output::line(&output::printable(&format!(
            "{removed} the empty counter {counter}"
        )))?;
    }
    for drift in &report.drift {
        output::line(&output::printable(&format!(
            "drift at {}: {}",
            drift.counter, drift.problem
        )))?;
    }
    output::line(&format!(
        "{} counters looked at: {freed} {} slots, {removed} {} empty counters, {} with drift",
        report.counters,
        report.orphans.len(),
        report.removed.len(),
        report.drift.len()
    ))?;
    Ok(ExitCode::SUCCESS)
}
