//! `lease pods`, and what the other views say of a lease's pod.

use std::process::ExitCode;
use std::slice;

use clap::Args;
use lease_brain::cluster::{PodLiveness, PodStatus, PodView};
use lease_brain::with_pod::WithPod;
use lease_shared::HolderView;
use mongodb::Database;

use crate::connection::{Connection, pods};
use crate::output;

/// Show the pods, dead ones too, by cluster and name.
///
/// A pod is alive if it has not stopped, has been heard within the time that it promised, and says where it can be
/// reached. Pods that were not heard for an hour are forgotten.
#[derive(Args)]
#[command(
    after_help = "Example:\n  lease pods\n  lease pods --json | jq -r '.[] | select(.alive).endpoint'"
)]
pub(crate) struct Opts {}

pub(crate) async fn run(
    Opts {}: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let liveness = pods(&connection.database().await?).await?;
    output::unreadable(liveness.unreadable());
    if json {
        output::json(&liveness.pods())?;
        return Ok(ExitCode::SUCCESS);
    }
    if liveness.pods().is_empty() {
        eprintln!("no pods: no brain has been heard for an hour");
        return Ok(ExitCode::SUCCESS);
    }
    let header = [
        "POD", "CLUSTER", "NODE", "STATUS", "ALIVE", "ENDPOINT", "BOOTED", "VERSION", "LABELS",
    ];
    output::table(header, liveness.pods().iter().map(row))?;
    Ok(ExitCode::SUCCESS)
}

fn row(pod: &PodView) -> [String; 9] {
    let alive = match (pod.alive, pod.status, &pod.endpoint) {
        (true, ..) => "alive".to_owned(),
        (false, PodStatus::Stopped, _) => format!("ended at {}", pod.last_heartbeat_at),
        (false, _, None) => "dead: nobody knows where it is".to_owned(),
        (false, ..) => format!("dead, last heard at {}", pod.last_heartbeat_at),
    };
    let labels: Vec<String> = pod
        .labels
        .iter()
        .map(|(label, value)| format!("{label}={value}"))
        .collect();
    [
        pod.pod.to_string(),
        pod.cluster_id.clone(),
        pod.node_name.clone(),
        pod.status.as_str().to_owned(),
        alive,
        pod.endpoint.clone().unwrap_or_default(),
        pod.booted_at.clone(),
        pod.version.clone(),
        labels.join(","),
    ]
}

/// Asks about the pods only where there are any.
async fn pods_of(holders: &[HolderView], database: &Database) -> anyhow::Result<PodLiveness> {
    match holders.iter().any(|holder| holder.pod.is_some()) {
        true => pods(database).await,
        false => Ok(PodLiveness::of_rows([], None)),
    }
}

/// Leases, and what is known of the pods that hold them.
pub(crate) async fn with_pods(
    holders: Vec<HolderView>,
    database: &Database,
) -> anyhow::Result<Vec<WithPod>> {
    let liveness = pods_of(&holders, database).await?;
    let judged = |holder| WithPod::judged(holder, &liveness);
    Ok(holders.into_iter().map(judged).collect())
}

/// A lease, and what is known of the pod that holds it.
pub(crate) async fn with_pod(holder: HolderView, database: &Database) -> anyhow::Result<WithPod> {
    let liveness = pods_of(slice::from_ref(&holder), database).await?;
    Ok(WithPod::judged(holder, &liveness))
}
