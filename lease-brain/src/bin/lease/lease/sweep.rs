//! `lease sweep`.

mod look;

use std::process::ExitCode;

use clap::Args;
use lease_brain::api::SweepReply;

use crate::brain::{Asked, BrainAt, follow};
use crate::connection::Connection;
use crate::exit::{PARTIAL, UNAVAILABLE, coded};
use crate::output;
use crate::ticker::{Ticker, ticking};

/// Have a brain sweep now: revoke what is idle or whose pod is dead, remove what never came to be, and reconcile.
///
/// Every brain does so by itself, twice a minute unless told otherwise. Exit code 77: something could not be done; the
/// next sweep tries again.
#[derive(Args)]
#[command(
    after_help = "Example:\n  lease sweep\n  lease sweep --dry-run\n  lease sweep --json | jq .idle"
)]
pub(crate) struct Opts {
    /// Only show which leases would be taken now. No brain is asked: this is a look, and the sweep judges anew.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    brain: BrainAt,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let database = connection.database().await?;
    if opts.dry_run {
        return look::look(&database, json).await;
    }
    let brains = opts.brain.find(&database).await?;
    let what = Asked {
        unknown: "to repeat it is safe",
    };
    let (brain, job) = brains
        .ask(what, |brain| async move { brain.sweep().await })
        .await?;
    let ticker = Ticker::new(None);
    let progress = ticking(
        &ticker,
        follow(&brain, &job, |_| {
            ticker
                .borrow_mut()
                .tell(&format!("the brain at {} sweeps", brain.endpoint()), "");
        }),
    )
    .await?;
    let Some(mut swept) = progress.sweep else {
        let problem = progress.failed.join("; ");
        let problem = format!("what the sweep did is unknown, and to repeat it is safe: {problem}");
        return Err(coded(UNAVAILABLE, problem));
    };
    swept.failed.extend(progress.failed);
    match json {
        true => output::json(&swept)?,
        false => tell(&swept)?,
    }
    for problem in &swept.failed {
        eprintln!("lease: failed: {}", output::printable(problem));
    }
    Ok(match swept.failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(PARTIAL),
    })
}

fn tell(swept: &SweepReply) -> anyhow::Result<()> {
    output::line(&format!(
        "revoked {} idle and {} of dead pods, removed {} acquires that never finished, finished {} revoked commands, freed {} \
         slots that nobody held, {} with drift, {} failed",
        swept.idle,
        swept.pod,
        swept.stale,
        swept.finished,
        swept.corrected,
        swept.drift.len(),
        swept.failed.len()
    ))?;
    if let Some(why) = &swept.waiting {
        output::line(&output::printable(&format!("held back: {why}")))?;
    }
    for drift in &swept.drift {
        output::line(&output::printable(&format!("drift at {drift}")))?;
    }
    Ok(())
}
