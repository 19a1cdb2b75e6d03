//! `lease sweep --dry-run`: what a sweep would find now, seen from here.

use std::process::ExitCode;

use lease_brain::with_pod::WithPod;
use lease_brain::words;
use lease_shared::{Filter, HolderState, HolderView, LeaseType, LeaseViews, PodId};
use mongodb::Database;
use serde::Serialize;

use crate::connection::asked;
use crate::lease::pods::with_pods;
use crate::output;

/// What a sweep would take, each lease once. The names are those of what a sweep reports.
#[derive(Default, Serialize)]
struct Look {
    idle: Vec<WithPod>,
    pod: Vec<WithPod>,
    stale: Vec<WithPod>,
    finished: Vec<WithPod>,
}

/// Why a sweep would take a lease.
#[derive(Clone, Copy)]
enum Why {
    Idle,
    DeadPod,
    Stale,
    Finished,
}

pub(super) async fn look(database: &Database, json: bool) -> anyhow::Result<ExitCode> {
    let views = LeaseViews::new(database.clone());
    let listed = asked(views.holders(&Filter::default()).await)?;
    output::unreadable(&listed.unreadable);
    let mut look = Look::default();
    for lease in with_pods(listed.entries, database).await? {
        if let Some(why) = why(&lease) {
            look.of(why).push(lease);
        }
    }
    if json {
        output::json(&look)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = look.rows();
    if !rows.is_empty() {
        let header = [
            "TOKEN",
            "RESOURCE",
            "TENANT/PROJECT/USER",
            "HOLDER",
            "AGE",
            "STATE",
            "WHY",
            "WHAT HAPPENS",
        ];
        output::table(header, rows)?;
    }
    output::line(&format!(
        "would revoke {} idle and {} of dead pods, remove {} acquires that never finished, finish {} revoked commands",
        look.idle.len(),
        look.pod.len(),
        look.stale.len(),
        look.finished.len()
    ))?;
    eprintln!(
        "this was only a look: the sweep judges anew, and the brain that sweeps believes a pod dead only if it would have heard \
         it; what else it frees is shown by `lease reconcile --dry-run`"
    );
    Ok(ExitCode::SUCCESS)
}

/// Why a sweep would take it, if it would. What is idle is taken before anybody asks about its pod.
fn why(lease: &WithPod) -> Option<Why> {
    let holder = &lease.holder;
    let is_over = holder.expires_in_seconds == 0;
    match holder.state {
        HolderState::Pending => is_over.then_some(Why::Stale),
        HolderState::Held if is_over => Some(Why::Idle),
        HolderState::Held => looks_dead(lease).then_some(Why::DeadPod),
        HolderState::Revoking => (is_over && is_command(holder)).then_some(Why::Finished),
    }
}

/// What cannot be the id of a pod is taken for nobody's.
fn looks_dead(lease: &WithPod) -> bool {
    let pod = lease.holder.pod.as_ref();
    pod.is_some_and(|pod| PodId::new(pod).is_ok()) && lease.pod_alive == Some(false)
}

fn is_command(holder: &HolderView) -> bool {
    holder.lease_type == LeaseType::command().as_str()
}

impl Look {
    fn of(&mut self, why: Why) -> &mut Vec<WithPod> {
        match why {
            Why::Idle => &mut self.idle,
            Why::DeadPod => &mut self.pod,
            Why::Stale => &mut self.stale,
            Why::Finished => &mut self.finished,
        }
    }

    fn rows(&self) -> Vec<[String; 8]> {
        let all = [
            (Why::Idle, &self.idle),
            (Why::DeadPod, &self.pod),
            (Why::Stale, &self.stale),
            (Why::Finished, &self.finished),
        ];
        let rows = |(why, leases): (Why, &Vec<WithPod>)| {
            let rows: Vec<_> = leases.iter().map(|lease| row(why, lease)).collect();
            rows
        };
        all.into_iter().flat_map(rows).collect()
    }
}

fn row(why: Why, lease: &WithPod) -> [String; 8] {
    let holder = &lease.holder;
    let (because, then) = match why {
        // Its command was to end by now, so nobody waits for it.
        Why::Idle if is_command(holder) => {
            ("idle", "no handler; the slot comes back at once".into())
        }
        Why::Idle => ("idle", words::dispatch(lease)),
        Why::DeadPod => ("its pod looks dead", words::dispatch(lease)),
        Why::Stale => (
            "its acquire never finished",
            "it is removed; the slot comes back at once".into(),
        ),
        Why::Finished => (
            "revoked, and its time has run out",
            "it is removed; the slot comes back at once".into(),
        ),
    };
    [
        holder.token.to_string(),
        holder.resource.clone(),
        words::holder(holder),
        holder.holder_ref.clone(),
        words::seconds(holder.age_seconds),
        words::state(holder),
        because.to_owned(),
        then,
    ]
}
