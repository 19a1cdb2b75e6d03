//! `lease cleanup abandon`.

use std::process::ExitCode;

use clap::Args;
use lease_shared::{CleanupPhase, Cleanups};
use serde_json::json;

use super::{NONE_FAILED, NOT_THERE, Which, nothing, refused};
use crate::confirm::confirm;
use crate::connection::{Connection, asked};
use crate::lease::found::Found;
use crate::output;

/// Give clean-ups up: the leases are gone and their slots come back, whatever still runs.
///
/// Shows first what may still run. Exit codes: 76 there is no such clean-up, 77 this is so of some.
#[derive(Args)]
#[command(
    after_help = "Example:\n  lease cleanup abandon 1f0c9a6e2b7d4f1c8a5e3d2b1c0f9e8d\n  \
                  lease cleanup abandon --all-failed --dry-run"
)]
pub(crate) struct Opts {
    #[command(flatten)]
    which: Which,
    /// Only show what would be given up.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before.
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let database = connection.database().await?;
    let named = opts.which.find(&database).await?;
    let (mut there, mut problems) = (Vec::new(), Vec::new());
    for named in &named {
        match named.revoking() {
            Ok(lease) => there.push(lease),
            Err(problem) => problems.push((NOT_THERE, problem)),
        }
    }
    if named.is_empty() && !json {
        eprintln!("{NONE_FAILED}");
    }
    if opts.dry_run {
        match json {
            true => output::json(&there)?,
            false if there.is_empty() => {}
            false => output::line(&format!(
                "{}\n{} would be given up",
                preview(&there),
                there.len()
            ))?,
        }
        refused(&problems, named.len())?;
        return Ok(ExitCode::SUCCESS);
    }
    if !there.is_empty() {
        eprintln!("{}", preview(&there));
        let question = format!("Give up these {}, whatever still runs?", there.len());
        confirm(&question, opts.yes)?;
    }
    let cleanups = Cleanups::new(database);
    let mut abandoned = Vec::new();
    for lease in there {
        let token = lease.token();
        match asked(cleanups.abandon(token).await)? {
            true => abandoned.push(lease),
            false => problems.push((NOT_THERE, nothing(token))),
        }
    }
    if json {
        let report: Vec<_> = abandoned
            .iter()
            .map(|lease| json!({ "token": lease.token(), "mayStillRun": may_still_run(lease) }))
            .collect();
        let refused: Vec<_> = problems.iter().map(|(_, problem)| problem).collect();
        output::json(&json!({ "abandoned": report, "refused": refused }))?;
    } else {
        for lease in &abandoned {
            output::line(&output::printable(&format!(
                "{} given up, {}: {}",
                lease.token(),
                slots(lease),
                may_still_run(lease)
            )))?;
        }
    }
    refused(&problems, named.len())?;
    Ok(ExitCode::SUCCESS)
}

fn preview(leases: &[&Found]) -> String {
    let header = [
        "TOKEN",
        "RESOURCE",
        "TYPE",
        "TENANT/PROJECT/USER",
        "PHASE",
        "LAST ERROR",
        "WHAT MAY STILL RUN",
    ];
    let rows = leases.iter().map(|lease| {
        [
            lease.token().to_string(),
            lease.resource(),
            lease.lease_type(),
            lease.holder(),
            lease.phase(),
            lease.last_error(),
            may_still_run(lease),
        ]
    });
    output::table_text(header, rows)
}

fn may_still_run(lease: &Found) -> String {
    let cleanup = lease.cleanup();
    match cleanup.filter(|cleanup| cleanup.phase == CleanupPhase::Running) {
        Some(cleanup) => format!(
            "its handler runs right now on pod {}; {}",
            cleanup.claimed_by.as_deref().unwrap_or("?"),
            lease.may_still_run()
        ),
        None => lease.may_still_run(),
    }
}

/// When the slots come back: a document that does not say which they are leaves that to a reconcile.
fn slots(lease: &Found) -> &'static str {
    match lease {
        Found::Broken(lease) if lease.levels.is_empty() => "`lease reconcile` frees its slots",
        Found::Broken(_) | Found::Whole(_) => "its slots are free",
    }
}
