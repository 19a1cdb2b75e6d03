//! `lease revoke-pod POD`.

use std::process::ExitCode;

use clap::Args;
use lease_brain::api::{JobProgress, RevokePodCall};
use lease_brain::cluster::PodLiveness;
use lease_brain::with_pod::WithPod;
use lease_brain::words;
use lease_shared::{Decision, Filter, HolderState, LeaseViews, PodId, SlotReturn};
use mongodb::Database;
use serde_json::json;

use super::force::{Forced, force};
use super::pods::with_pods;
use super::revoke;
use crate::brain::{Asked, BrainAt, Brains, follow};
use crate::confirm::confirm;
use crate::connection::{Connection, asked, pods};
use crate::exit::{FORCED, INVALID, PARTIAL, coded};
use crate::output;
use crate::ticker::{Ticker, ticking};

/// Revoke everything that a pod holds.
///
/// Shows first what that is and what will happen to it. What the pod acquires meanwhile is not part of it. Exit codes: 0
/// done, 77 some could not be revoked, 79 forced. To repeat it is safe.
#[derive(Args)]
#[command(
    after_help = "Example:\n  lease revoke-pod 6f1c9a6e-2b7d-4f1c-8a5e-3d2b1c0f9e8d --dry-run\n  \
                  lease revoke-pod 6f1c9a6e-2b7d-4f1c-8a5e-3d2b1c0f9e8d --reason 'the host is drained' --yes"
)]
pub(crate) struct Opts {
    /// The pod's id, as `lease pods` shows it; alive or dead.
    pod: String,
    /// Why, for others to read.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only show what would be revoked.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before.
    #[arg(long)]
    yes: bool,
    /// Without a brain: give the slots back at once, whatever still runs. The handlers run when a brain is back.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    brain: BrainAt,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let pod = PodId::new(opts.pod)?;
    let decision = Decision {
        pod: Some(pod.clone()),
        note: revoke::reason(opts.reason)?,
        ..Decision::default()
    };
    let database = connection.database().await?;
    // What is missing is to be said before anybody has read a list and confirmed it.
    let brains = match opts.force || opts.dry_run {
        true => None,
        false => Some(opts.brain.find(&database).await?),
    };
    let Found {
        leases: found,
        unreadable,
        anything,
    } = found(&pod, opts.force, &database).await?;
    let liveness = pods(&database).await?;
    if !anything && !knows(&liveness, &pod) {
        let problem = format!(
            "no pod {pod}, and nothing is held under that id: `lease pods` shows the pods and their ids"
        );
        return Err(coded(INVALID, problem));
    }
    let preview = preview(&found)?;
    if opts.dry_run {
        match json {
            true => output::json(&found)?,
            false => output::line(&format!("{preview}{} would be revoked", found.len()))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        eprintln!("lease: pod {pod} holds nothing");
    } else {
        eprint!("{preview}");
        let how = if opts.force { " by force" } else { "" };
        confirm(&format!("Revoke these {}{how}?", found.len()), opts.yes)?;
    }
    match brains {
        Some(brains) => by_brain(&brains, pod, decision.note, json).await,
        None => by_force(&found, unreadable, &decision, &connection, json).await,
    }
}

/// What a pod has.
struct Found {
    /// What is to be revoked.
    leases: Vec<WithPod>,
    unreadable: Vec<String>,
    /// Is there anything in its name?
    anything: bool,
}

/// What the pod holds; for a force also what was revoked before and keeps its slot.
async fn found(pod: &PodId, force: bool, database: &Database) -> anyhow::Result<Found> {
    let filter = Filter {
        pod: Some(pod.clone()),
        ..Filter::default()
    };
    let listed = asked(LeaseViews::new(database.clone()).holders(&filter).await)?;
    output::unreadable(&listed.unreadable);
    let anything = !listed.entries.is_empty() || !listed.unreadable.is_empty();
    let meant = listed
        .entries
        .into_iter()
        .filter(|holder| match holder.state {
            HolderState::Pending => false,
            HolderState::Held => true,
            HolderState::Revoking => force && holder.slot_return == SlotReturn::AfterCleanup,
        });
    Ok(Found {
        anything,
        leases: with_pods(meant.collect(), database).await?,
        unreadable: listed.unreadable,
    })
}

fn knows(liveness: &PodLiveness, pod: &PodId) -> bool {
    liveness.pods().iter().any(|row| row.pod == *pod)
}

fn preview(found: &[WithPod]) -> anyhow::Result<String> {
    if found.is_empty() {
        return Ok(String::new());
    }
    let header = [
        "TOKEN",
        "RESOURCE",
        "TENANT/PROJECT/USER",
        "HOLDER",
        "AGE",
        "STATE",
        "WHAT HAPPENS",
    ];
    let rows = found.iter().map(|lease| {
        let holder = &lease.holder;
        [
            holder.token.to_string(),
            holder.resource.clone(),
            words::holder(holder),
            holder.holder_ref.clone(),
            words::seconds(holder.age_seconds),
            words::state(holder),
            words::dispatch(lease),
        ]
    });
    Ok(output::table_text(header, rows) + "\n")
}

async fn by_brain(
    brains: &Brains,
    pod: PodId,
    reason: Option<String>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let call = RevokePodCall { pod, reason };
    let what = Asked {
        unknown: "to repeat it is safe",
    };
    let (brain, job) = brains
        .ask(what, |brain| {
            let call = call.clone();
            async move { brain.revoke_pod(&call).await }
        })
        .await?;
    let ticker = Ticker::new(None);
    let done = ticking(
        &ticker,
        follow(&brain, &job, |progress| {
            let through = progress.revoked + progress.gone + progress.failed.len();
            ticker
                .borrow_mut()
                .tell(&format!("{through} of {} done", progress.total), "");
        }),
    )
    .await?;
    match json {
        true => output::json(&json!({
            "pod": call.pod,
            "total": done.total,
            "revoked": done.revoked,
            "cleanupPending": done.cleanup_pending,
            "gone": done.gone,
            "left": done.left,
            "failed": done.failed,
        }))?,
        false => output::line(&counts(&done))?,
    }
    failures(&done.failed);
    if done.left > 0 {
        eprintln!(
            "lease: {} were not tried: repeat it when what failed is mended",
            done.left
        );
    }
    Ok(match done.failed.is_empty() && done.left == 0 {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(PARTIAL),
    })
}

fn counts(done: &JobProgress) -> String {
    let pending = match done.cleanup_pending {
        0 => String::new(),
        1 => " (1 clean-up pending)".to_owned(),
        count => format!(" ({count} clean-ups pending)"),
    };
    let left = match done.left {
        0 => String::new(),
        left => format!(", {left} not tried"),
    };
    format!(
        "{} revoked{pending}, {} not held any more, {} failed{left}",
        done.revoked,
        done.gone,
        done.failed.len()
    )
}

fn failures(failed: &[String]) {
    for problem in failed {
        eprintln!("lease: failed: {}", output::printable(problem));
    }
}

async fn by_force(
    found: &[WithPod],
    unreadable: Vec<String>,
    decision: &Decision,
    connection: &Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let leases = connection.leases_by_token().await?;
    let (mut forced, mut gone, mut failed) = (Vec::new(), 0, unreadable);
    for lease in found {
        match force(&leases, lease, decision).await {
            Ok(Forced::Done(report)) => {
                if !json {
                    output::line(&output::printable(&report.line()))?;
                }
                forced.push(report);
            }
            Ok(Forced::Gone) => gone += 1,
            Err(error) => failed.push(format!(
                "{}: {:#}",
                lease.holder.token,
                anyhow::Error::from(error)
            )),
        }
    }
    leases.close().await;
    match json {
        true => {
            output::json(
                &json!({ "pod": decision.pod, "forced": forced, "gone": gone, "failed": failed }),
            )?;
        }
        false => output::line(&format!(
            "{} forced, {gone} not held any more, {} failed",
            forced.len(),
            failed.len()
        ))?,
    }
    failures(&failed);
    Ok(match (failed.is_empty(), forced.is_empty()) {
        (false, _) => ExitCode::from(PARTIAL),
        (true, false) => ExitCode::from(FORCED),
        (true, true) => ExitCode::SUCCESS,
    })
}
