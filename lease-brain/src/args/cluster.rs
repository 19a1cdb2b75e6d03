use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;

use super::InvalidArgs;
use crate::cluster::{InvalidPodSettings, PodSettings};

/// How the brain stands among the others.
#[derive(Args, Clone)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The cluster it belongs to. Node names are unique within one.
    #[arg(
        long,
        env = "BRAIN_CLUSTER_ID",
        value_name = "NAME",
        default_value = PodSettings::CLUSTER_ID
    )]
    cluster_id: String,
    /// The name that it keeps when it is started again, and that no other has meanwhile [default: the host's name and
    /// the port it listens on, like build-7:7311].
    #[arg(long, env = "BRAIN_NODE_NAME", value_name = "NAME")]
    node_name: Option<String>,
    /// What operators want to see with it, like zone=b,rack=7.
    #[arg(
        long,
        env = "BRAIN_LABELS",
        value_name = "NAME=VALUE,…",
        value_delimiter = ',',
        value_parser = label
    )]
    labels: Vec<(String, String)>,
    /// How often it says that it is there. Too small, and many pods write of nothing else.
    #[arg(
        long,
        env = "BRAIN_HEARTBEAT",
        value_name = "DURATION",
        default_value_t = PodSettings::HEARTBEAT.into(),
        value_parser = super::shown_duration
    )]
    heartbeat: humantime::Duration,
    /// After how long a silence the others take it for dead: three heartbeats at least. Too small, and a pod that was
    /// only slow (a full disk, an election of MongoDB) loses the leases it holds, and its name.
    #[arg(
        long,
        env = "BRAIN_STALE",
        value_name = "DURATION",
        default_value_t = PodSettings::STALE.into(),
        value_parser = super::shown_duration
    )]
    stale: humantime::Duration,
}

/// How the brain stands among the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The cluster it belongs to.
    pub cluster_id: String,
    /// Its name in it.
    pub node_name: NodeName,
    /// What operators want to see with it.
    pub labels: BTreeMap<String, String>,
    /// How often it says that it is there.
    pub heartbeat: Duration,
    /// After how long a silence the others take it for dead.
    pub stale: Duration,
}

/// The name of a pod in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeName {
    /// This one.
    Given(String),
    /// The host's name and the port: the same after a restart, and another for a second brain on the machine.
    HostAndPort,
}

impl ClusterArgs {
    pub(super) fn resolve(self) -> Result<ClusterSettings, InvalidArgs> {
        let mut labels = BTreeMap::new();
        for (label, value) in self.labels {
            if labels.insert(label.clone(), value).is_some() {
                return Err(InvalidArgs::TwoLabels(label));
            }
        }
        Ok(ClusterSettings {
            cluster_id: self.cluster_id,
            node_name: self
                .node_name
                .map_or(NodeName::HostAndPort, NodeName::Given),
            labels,
            heartbeat: self.heartbeat.into(),
            stale: self.stale.into(),
        })
    }
}

impl ClusterSettings {
    /// What a pod joins with that is reached at `endpoint` and listens on `port`.
    ///
    /// # Errors
    /// A setting that cannot work. [`BrainArgs::resolve`](super::BrainArgs::resolve) has refused all that does not come
    /// from `endpoint`.
    pub fn pod(&self, endpoint: String, port: u16) -> Result<PodSettings, InvalidPodSettings> {
        let node_name = match &self.node_name {
            NodeName::Given(name) => name.clone(),
            NodeName::HostAndPort => {
                let system = rustix::system::uname();
                format!("{}:{port}", system.nodename().to_string_lossy())
            }
        };
        PodSettings {
            cluster_id: self.cluster_id.clone(),
            node_name,
            endpoint,
            labels: self.labels.clone(),
            heartbeat: self.heartbeat,
            stale: self.stale,
        }
        .checked()
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((label, value)) if !label.is_empty() => Ok((label.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE, several with commas between them".to_owned()),
    }
}
