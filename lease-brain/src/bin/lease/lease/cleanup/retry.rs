//! `lease cleanup retry`.

use std::process::ExitCode;

use clap::Args;
use lease_brain::words;
use lease_shared::{CleanupPhase, CleanupView, Cleanups, LeaseToken};
use serde_json::json;

use super::{NOT_THERE, Named, Which, nothing, refused, warn_if_nobody};
use crate::connection::{Connection, asked, pods};
use crate::exit::BUSY;
use crate::output;

/// Have clean-ups tried again now, as if for the first time.
///
/// Exit codes: 75 it is under way, or waits for its holder's end; 76 there is no such clean-up; 77 this is so of some.
#[derive(Args)]
#[command(
    after_help = "Example:\n  lease cleanup retry 1f0c9a6e2b7d4f1c8a5e3d2b1c0f9e8d\n  lease cleanup retry --all-failed"
)]
pub(crate) struct Opts {
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let database = connection.database().await?;
    let named = opts.which.find(&database).await?;
    let cleanups = Cleanups::new(database.clone());
    let (mut retried, mut problems) = (Vec::new(), Vec::new());
    for named in &named {
        match retry(&cleanups, named).await? {
            Ok(token) => retried.push(token),
            Err(problem) => problems.push(problem),
        }
    }
    if json {
        let refused: Vec<_> = problems.iter().map(|(_, problem)| problem).collect();
        output::json(&json!({ "retried": retried, "refused": refused }))?;
    } else if named.is_empty() {
        eprintln!("no clean-up is marked as failed");
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

async fn retry<'a>(
    cleanups: &Cleanups,
    named: &'a Named,
) -> anyhow::Result<Result<&'a LeaseToken, (u8, String)>> {
    let token = &named.token;
    let lease = match named.revoking() {
        Ok(lease) => lease,
        Err(problem) => return Ok(Err((NOT_THERE, problem))),
    };
    let cleanup = lease.holder.cleanup.as_ref();
    if let Some(problem) = cleanup.and_then(|cleanup| not_now(token, cleanup)) {
        return Ok(Err((BUSY, problem)));
    }
    // It may have been begun, or done, since it was looked at.
    Ok(match asked(cleanups.retry(token).await)? {
        true => Ok(token),
        false if asked(cleanups.is_open(token).await)? => Err((BUSY, under_way(token, None))),
        false => Err((NOT_THERE, nothing(token))),
    })
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
