//! `lease show TOKEN`.

use std::process::ExitCode;

use clap::Args;
use lease_brain::words;
use lease_shared::{BrokenLease, CleanupView, HolderState, LeaseToken};

use super::found::{Found, cure};
use crate::connection::Connection;
use crate::exit::{INVALID, LOST, coded};
use crate::output;

/// Show everything about one lease.
///
/// Exit codes: 76 there is no such lease, 78 its document cannot be read; --json shows what of it can.
#[derive(Args)]
#[command(after_help = "Example:\n  lease show 1f0c9a6e2b7d4f1c8a5e3d2b1c0f9e8d")]
pub(crate) struct Opts {
    /// The lease's token, as `lease list` shows it.
    token: String,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let token = LeaseToken::new(opts.token)?;
    let database = connection.database().await?;
    let shown = match Found::by_token(&token, &database).await? {
        Some(Found::Whole(shown)) => *shown,
        Some(Found::Broken(lease)) => {
            if json {
                output::json(&lease)?;
            }
            return Err(broken(&lease));
        }
        None => {
            let problem = format!(
                "no lease {token}: it is not held any more; released, or reaped and cleaned up, or never was"
            );
            return Err(coded(LOST, problem));
        }
    };
    if json {
        output::json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    let pod = shown.pod_in_full();
    let dispatch = words::dispatch(&shown);
    let holder = shown.holder;
    let cleanup = cleanup_rows(holder.cleanup.as_ref());
    let none = || "-".to_owned();
    let expires = match holder.expires_in_seconds {
        _ if holder.state == HolderState::Revoking => none(),
        0 => "expired; the next sweep or acquire reaps it".to_owned(),
        seconds => format!("in {}, unless it is used", words::seconds(seconds)),
    };
    let revocation = match (holder.revocation_reason, &holder.revoked_at) {
        (Some(reason), Some(at)) => format!("{} since {at}", reason.as_str()),
        _ => none(),
    };
    let state = words::state(&holder);
    let on_revocation = match holder.state {
        HolderState::Revoking => "on the revocation",
        HolderState::Pending | HolderState::Held => "on a revocation",
    };
    let rows = [
        ("token", holder.token.to_string()),
        ("lease", holder.lease),
        ("resource", holder.resource),
        ("type", holder.lease_type),
        ("state", state),
        ("tenant", holder.tenant),
        ("project", holder.project),
        ("user", holder.user),
        ("holder", holder.holder_ref),
        ("pod", pod),
        ("books", holder.levels.join(", ")),
        ("acquired", holder.acquired_at.unwrap_or_else(none)),
        (
            "last used",
            format!("{} ({} uses)", holder.last_seen_at, holder.beats),
        ),
        ("expires", expires),
        (
            "payload",
            if holder.payload_keys.is_empty() {
                none()
            } else {
                holder.payload_keys.join(", ")
            },
        ),
        (on_revocation, dispatch),
        ("revocation", revocation),
    ];
    output::table(
        ["FIELD", "VALUE"],
        rows.into_iter()
            .chain(cleanup)
            .map(|(field, value)| [field.to_owned(), value]),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// No try can ever read it, so it is not the store's fault.
fn broken(lease: &BrokenLease) -> anyhow::Error {
    let (token, unreadable) = (&lease.token, &lease.unreadable);
    let state = lease.state.map_or("in no known state", HolderState::as_str);
    let cure = cure(lease);
    let problem = format!("lease {token} ({state}) cannot be read: {unreadable}: {cure}");
    coded(INVALID, problem)
}

/// How far the clean-up is; nothing if there is none.
fn cleanup_rows(cleanup: Option<&CleanupView>) -> Vec<(&'static str, String)> {
    let Some(cleanup) = cleanup else {
        return Vec::new();
    };
    let mut rows = vec![
        ("clean-up", words::phase(cleanup)),
        ("attempts", cleanup.attempts.to_string()),
        ("next try", words::next_try(cleanup)),
    ];
    if let Some(error) = &cleanup.last_error {
        rows.push(("last error", error.clone()));
    }
    if let Some(by) = &cleanup.by {
        rows.push(("revoked by", by.clone()));
    }
    if let Some(note) = &cleanup.note {
        rows.push(("note", note.clone()));
    }
    if cleanup.forced {
        let forced = "the slots came back at once, whatever still ran";
        rows.push(("forced", forced.to_owned()));
    }
    rows
}
