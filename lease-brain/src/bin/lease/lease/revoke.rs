//! `lease revoke TOKEN`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lease_brain::api::{RevokeCall, check_reason};
use lease_brain::words;
use lease_shared::{BrokenLease, Cleanups, Decision, LeaseToken, PodId, Revoked, SlotAfter};
use mongodb::Database;
use serde_json::{Value, json};

use super::force::{self, Forced};
use super::found::Found;
use super::until_gone::until_gone;
use crate::brain::{Asked, BrainAt};
use crate::confirm::confirm;
use crate::connection::{Connection, asked};
use crate::exit::{self, BUSY, FORCED, LOST, PENDING, USAGE, coded};
use crate::output;

/// Take a lease from its holder. Its next check says lost; a brain cleans up.
///
/// Exit codes: 0 revoked, now or before; 69 a brain or the store did not answer, so that nothing is known; 75 it is still
/// being acquired, try again; 76 there is no such lease, or another pod holds it; 79 forced; 80 revoked, but its clean-up
/// was not finished within --timeout.
#[derive(Args)]
#[command(
    after_help = "Example:\n  lease revoke 1f0c9a6e2b7d4f1c8a5e3d2b1c0f9e8d --reason 'bench 4 is needed' --wait"
)]
pub(crate) struct Opts {
    /// The lease's token, as `lease list` shows it.
    token: String,
    /// Why, for others to read.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only if this pod holds it.
    #[arg(long, value_name = "POD")]
    if_pod: Option<String>,
    /// Wait until its clean-up is done, and say how far that is.
    #[arg(long, conflicts_with = "force")]
    wait: bool,
    /// How long to wait at most.
    #[arg(long, requires = "wait", value_name = "DURATION", default_value = "10m", value_parser = lease_brain::args::duration)]
    timeout: Duration,
    /// Without a brain: give the slot back at once, whatever still runs. Its handler runs when a brain is back.
    #[arg(long)]
    force: bool,
    /// Do not ask before a --force.
    #[arg(long, requires = "force")]
    yes: bool,
    #[command(flatten)]
    brain: BrainAt,
}

/// Refuses a reason that cannot be stored.
pub(crate) fn reason(given: Option<String>) -> anyhow::Result<Option<String>> {
    match given.as_deref().map(check_reason) {
        Some(Err(rule)) => Err(coded(USAGE, format!("--reason {rule}"))),
        _ => Ok(given),
    }
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let token = LeaseToken::new(opts.token)?;
    let if_pod = opts.if_pod.map(PodId::new).transpose()?;
    let reason = reason(opts.reason)?;
    if opts.force {
        let decision = Decision {
            pod: if_pod,
            note: reason,
            ..Decision::default()
        };
        return by_force(&token, decision, opts.yes, connection, json).await;
    }
    let database = connection.database().await?;
    let brains = opts.brain.find(&database).await?;
    let call = RevokeCall {
        token: token.clone(),
        reason,
        if_pod: if_pod.clone(),
    };
    let what = Asked {
        unknown: &format!("`lease show {token}` tells"),
    };
    let (_, reply) = brains
        .ask(what, |brain| {
            let call = call.clone();
            async move { brain.revoke(&call).await }
        })
        .await?;
    let told = Told::of(&token, &reply.outcome, if_pod.as_ref());
    if let Some((code, problem)) = told.problem {
        if json {
            output::json(&told.json)?;
        }
        return Err(coded(code, problem));
    }
    if !opts.wait {
        match json {
            true => output::json(&told.json)?,
            false => output::line(&told.line)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("lease: {}", told.revoked);
    let gone = until_gone(&token, &database, opts.timeout).await;
    let mut facts = told.json;
    if gone {
        facts["cleanup"] = json!("done");
        facts["slot"] = json!(SlotAfter::Free);
        facts["follow"] = Value::Null;
    }
    match (json, gone) {
        (true, _) => output::json(&facts)?,
        (false, true) => output::line(&format!("{token} released: its clean-up is done"))?,
        (false, false) => {}
    }
    if gone {
        return Ok(ExitCode::SUCCESS);
    }
    let limit = humantime::format_duration(opts.timeout);
    let problem = format!(
        "{token} is revoked, but its clean-up is not done after {limit}: follow it with `lease revoke {token} --wait`, or \
         see `lease cleanup list`"
    );
    Err(coded(PENDING, problem))
}

/// What a brain's answer means, for people and for scripts.
struct Told {
    /// That it is revoked.
    revoked: &'static str,
    /// With what becomes of its slot.
    line: String,
    json: Value,
    /// Why nothing was revoked.
    problem: Option<(u8, String)>,
}

impl Told {
    fn of(token: &LeaseToken, outcome: &Revoked, meant: Option<&PodId>) -> Self {
        let follow = format!("lease revoke {token} --wait");
        let (word, slot) = match outcome {
            Revoked::Now(slot) => ("now", Some(*slot)),
            Revoked::Already(slot) => ("already", Some(*slot)),
            Revoked::StillAcquiring => ("stillAcquiring", None),
            Revoked::OtherPod(_) => ("otherPod", None),
            Revoked::NotHeld | Revoked::OtherUser => ("notHeld", None),
        };
        let mut json = json!({
            "token": token,
            "outcome": word,
            "slot": slot,
            "cleanup": slot.map(|_| "pending"),
            "follow": slot.map(|_| &follow),
        });
        let problem = match outcome {
            Revoked::Now(_) | Revoked::Already(_) => None,
            Revoked::StillAcquiring => Some((
                BUSY,
                format!(
                    "{token} is still being acquired: nothing was revoked; it is held or gone within seconds, try again"
                ),
            )),
            Revoked::OtherPod(pod) => {
                json["pod"] = json!(pod);
                Some((LOST, other_pod(token, pod.as_deref(), meant)))
            }
            Revoked::NotHeld | Revoked::OtherUser => {
                Some((LOST, format!("no lease {token}: it is not held any more")))
            }
        };
        let revoked = match outcome {
            Revoked::Already(_) => "was being revoked already",
            _ => "revoked",
        };
        let slot = match slot {
            Some(SlotAfter::Free) => "the slot is free",
            Some(SlotAfter::WhenCleanedUp) => "the slot comes back when its clean-up is done",
            Some(SlotAfter::WhenEnded) => {
                "the slot comes back when its holder says that it has ended, or its time has run out"
            }
            None => "",
        };
        Self {
            line: format!(
                "{token} {revoked}, clean-up pending: {slot}; follow it with `{follow}` or `lease cleanup list`"
            ),
            revoked,
            json,
            problem,
        }
    }
}

fn other_pod(token: &LeaseToken, holds: Option<&str>, meant: Option<&PodId>) -> String {
    let holds = match holds {
        Some(pod) => format!("held by pod {pod}"),
        None => "held without a pod".to_owned(),
    };
    let not = meant.map_or_else(String::new, |pod| format!(", not by {pod}"));
    format!("{token} is {holds}{not}: nothing was revoked")
}

/// Straight in the store.
async fn by_force(
    token: &LeaseToken,
    decision: Decision,
    yes: bool,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let database = connection.database().await?;
    let lease = match Found::by_token(token, &database).await? {
        Some(Found::Whole(lease)) => *lease,
        Some(Found::Broken(lease)) => {
            return broken_by_force(&lease, &decision, yes, &database, json).await;
        }
        None => return Err(not_held(token)),
    };
    if decision.pod.is_some()
        && lease.holder.pod.as_deref() != decision.pod.as_ref().map(PodId::as_str)
    {
        let problem = other_pod(token, lease.holder.pod.as_deref(), decision.pod.as_ref());
        return Err(coded(LOST, problem));
    }
    let question = format!(
        "Free the slot of {} ({}, {}) at once, although {}?",
        lease.holder.resource,
        words::holder(&lease.holder),
        lease.holder.holder_ref,
        words::may_still_run(&lease)
    );
    confirm(&question, yes)?;
    let leases = connection.leases_by_token().await?;
    let forced = asked(force::force(&leases, &lease, &decision).await)?;
    leases.close().await;
    let Forced::Done(report) = forced else {
        return Err(not_held(token));
    };
    match json {
        true => output::json(&report)?,
        false => output::line(&output::printable(&report.line()))?,
    }
    Ok(ExitCode::from(FORCED))
}

/// The same where nothing but the token and what it books can be relied on.
async fn broken_by_force(
    lease: &BrokenLease,
    decision: &Decision,
    yes: bool,
    database: &Database,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let (token, unreadable) = (&lease.token, &lease.unreadable);
    let question = format!(
        "Free the slot of {token}, which cannot be read ({unreadable}), at once, although its resource may still be in use?"
    );
    confirm(&question, yes)?;
    let cleanups = Cleanups::new(database.clone());
    if !asked(cleanups.force_broken(token, decision).await)? {
        return Err(not_held(token));
    }
    let report = force::BrokenReport::of(lease);
    match json {
        true => output::json(&report)?,
        false => output::line(&output::printable(&report.line()))?,
    }
    Ok(ExitCode::from(FORCED))
}

fn not_held(token: &LeaseToken) -> anyhow::Error {
    let problem = format!(
        "no lease {token} to revoke: it is still being acquired, or not held any more; released, or revoked and cleaned up, or \
         never was"
    );
    exit::coded(LOST, problem)
}
