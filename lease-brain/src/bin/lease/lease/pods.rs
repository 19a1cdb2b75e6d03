//! `lease pods`, and what the other views say of a lease's pod.

use std::process::ExitCode;
use std::slice;

use clap::Args;
use lease_brain::cluster::{PodLiveness, PodStatus, PodView};
use lease_shared::{HolderView, PodId};
use mongodb::Database;
use serde::Serialize;

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

/// A lease, and what is known of the pod that holds it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WithPod {
    #[serde(flatten)]
    pub(crate) holder: HolderView,
    /// Nothing, if it is held without a pod.
    pub(crate) pod_alive: Option<bool>,
    #[serde(skip)]
    node_name: Option<String>,
}

impl WithPod {
    pub(crate) async fn of(
        holders: Vec<HolderView>,
        database: &Database,
    ) -> anyhow::Result<Vec<Self>> {
        let liveness = pods_of(&holders, database).await?;
        let judged = |holder| Self::judged(holder, &liveness);
        Ok(holders.into_iter().map(judged).collect())
    }

    pub(crate) async fn of_one(holder: HolderView, database: &Database) -> anyhow::Result<Self> {
        let liveness = pods_of(slice::from_ref(&holder), database).await?;
        Ok(Self::judged(holder, &liveness))
    }

    fn judged(holder: HolderView, liveness: &PodLiveness) -> Self {
        // What cannot be the id of a pod is that of none.
        let id = holder.pod.as_ref().and_then(|pod| PodId::new(pod).ok());
        let alive = id.as_ref().is_some_and(|pod| liveness.is_alive(pod));
        let node_name = id.and_then(|pod| liveness.node_name(&pod).map(str::to_owned));
        Self {
            pod_alive: holder.pod.is_some().then_some(alive),
            node_name,
            holder,
        }
    }

    /// The name of its node, or as much of its id as tells pods apart.
    pub(crate) fn pod_in_short(&self) -> String {
        let Some(pod) = &self.holder.pod else {
            return "-".to_owned();
        };
        let name = match &self.node_name {
            Some(name) => name.clone(),
            None => pod.chars().take(8).collect(),
        };
        match self.pod_alive {
            Some(false) => format!("{name} (dead)"),
            _ => name,
        }
    }

    /// All that is known of it.
    pub(crate) fn pod_in_full(&self) -> String {
        let Some(pod) = &self.holder.pod else {
            return "-".to_owned();
        };
        let node = self
            .node_name
            .as_ref()
            .map_or_else(String::new, |name| format!(" on {name}"));
        let bound = if self.holder.pod_bound { ", bound" } else { "" };
        let alive = match self.pod_alive {
            Some(true) => "alive",
            _ => "dead",
        };
        format!("{pod}{node} ({alive}{bound})")
    }
}
