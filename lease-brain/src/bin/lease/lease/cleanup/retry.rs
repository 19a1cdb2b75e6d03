//! `lease cleanup retry`.

use std::process::ExitCode;

use clap::Args;
use lease_brain::words;
use lease_shared::{CleanupPhase, CleanupView, Cleanups, LeaseToken};
use serde_json::json;

use super::{NONE_FAILED, NOT_THERE, Named, Which, nothing, refused, warn_if_nobody};
use crate::confirm::confirm_on_terminal;
use crate::connection::{Connection, asked, pods};
use crate::exit::BUSY;
use crate::lease::found::Found;
use crate::output;

/// Have clean-ups tried again now, as if for the first time.
///
/// All that failed are shown first, to whoever can be asked on a terminal. Exit codes: 75 it is under way, or waits for its holder's end; 76 there is no such clean-up; 77 this is so of some.
#[derive(Args)]
#[command(
    after_help = "Example:\n  lease cleanup retry 1f0c9a6e2b7d4f1c8a5e3d2b1c0f9e8d\n  \
                  lease cleanup retry --all-failed --dry-run"
)]
pub(crate) struct Opts {
    #[command(flatten)]
    which: Which,
    /// Only show what would be tried again.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before, on a terminal; elsewhere nobody is asked.
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let database = connection.database().await?;
    let all_failed = opts.which.all_failed;
    let named = opts.which.find(&database).await?;
    let (mut there, mut problems) = (Vec::new(), Vec::new());
    for named in &named {
        match judge(named) {
            Ok(lease) => there.push(lease),
            Err(problem) => problems.push(problem),
        }
    }
    if opts.dry_run {
        match json {
            true => output::json(&there)?,
            false if named.is_empty() => eprintln!("{NONE_FAILED}"),
            false if there.is_empty() => {}
            false => output::line(&format!(
                "{}\n{} would be tried again",
                preview(&there),
                there.len()
            ))?,
        }
        refused(&problems, named.len())?;
        return Ok(ExitCode::SUCCESS);
    }
    if all_failed && !there.is_empty() {
        let question = format!("Try these {} again now?", there.len());
        confirm_on_terminal(|| preview(&there), &question, opts.yes)?;
    }
    let cleanups = Cleanups::new(database.clone());
    let mut retried = Vec::new();
    for lease in there {
        match retry(&cleanups, lease.token()).await? {
            Ok(token) => retried.push(token),
            Err(problem) => problems.push(problem),
        }
    }
    if json {
        let refused: Vec<_> = problems.iter().map(|(_, problem)| problem).collect();
        output::json(&json!({ "retried": retried, "refused": refused }))?;
    } else if named.is_empty() {
        eprintln!("{NONE_FAILED}");
    } else {
        for token in &retried {
            output::line(&format!("{token} is tried again now"))?;
        }
    }
    if !retried.is_empty() {
        warn_if_nobody(&pods(&database).await?);
    }
    refused(&problems, named.len())?;
    Ok(ExitCode::SUCCESS)
}

/// The lease whose clean-up can be tried now; else why not.
fn judge(named: &Named) -> Result<&Found, (u8, String)> {
    let lease = named.revoking().map_err(|problem| (NOT_THERE, problem))?;
    match lease
        .cleanup()
        .and_then(|cleanup| not_now(&named.token, cleanup))
    {
        Some(problem) => Err((BUSY, problem)),
        None => Ok(lease),
    }
}

async fn retry<'a>(
    cleanups: &Cleanups,
    token: &'a LeaseToken,
) -> anyhow::Result<Result<&'a LeaseToken, (u8, String)>> {
    // It may have been begun, or done, since it was looked at.
    Ok(match asked(cleanups.retry(token).await)? {
        true => Ok(token),
        false if asked(cleanups.is_open(token).await)? => Err((BUSY, under_way(token, None))),
        false => Err((NOT_THERE, nothing(token))),
    })
}

fn preview(leases: &[&Found]) -> String {
    let header = [
        "TOKEN",
        "RESOURCE",
        "TYPE",
        "TENANT/PROJECT/USER",
        "PHASE",
        "ATTEMPTS",
        "LAST ERROR",
        "WHAT HAPPENS",
    ];
    let rows = leases.iter().map(|lease| {
        [
            lease.token().to_string(),
            lease.resource(),
            lease.lease_type(),
            lease.holder(),
            lease.phase(),
            lease.attempts(),
            lease.last_error(),
            lease.dispatch(),
        ]
    });
    output::table_text(header, rows)
}

/// Why a clean-up is not to be tried now.
fn not_now(token: &LeaseToken, cleanup: &CleanupView) -> Option<String> {
    match cleanup.phase {
        CleanupPhase::Running => Some(under_way(token, cleanup.claimed_by.as_deref())),
        // Its slot would come back while what it holds is in use.
        CleanupPhase::HolderEnding => Some(format!(
            "the clean-up of {token} waits for its holder's end, for {} at most, and cannot be tried before",
            words::seconds(cleanup.next_try_in_seconds)
        )),
        CleanupPhase::Waiting | CleanupPhase::Failed => None,
    }
}

fn under_way(token: &LeaseToken, pod: Option<&str>) -> String {
    let pod = pod.map_or_else(String::new, |pod| format!(" on pod {pod}"));
    format!("the clean-up of {token} is under way{pod}, and cannot be tried again now")
}
