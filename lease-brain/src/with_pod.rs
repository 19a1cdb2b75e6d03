//! A lease, and what is known of the pod that holds it.

use lease_shared::{HolderView, PodId};
use serde::Serialize;

use crate::cluster::PodLiveness;

/// A lease, and what is known of the pod that holds it.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WithPod {
    /// The lease.
    #[serde(flatten)]
    pub holder: HolderView,
    /// Is that pod alive? Nothing, if it is held without a pod.
    pub pod_alive: Option<bool>,
    /// The name of its node.
    #[serde(skip)]
    pub node_name: Option<String>,
}

impl WithPod {
    /// The lease, as these pods are.
    pub fn judged(holder: HolderView, liveness: &PodLiveness) -> Self {
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

    /// The name of its node, or as much of its id as tells pods apart; nothing without a pod.
    pub fn pod_name(&self) -> Option<String> {
        let pod = self.holder.pod.as_ref()?;
        Some(match &self.node_name {
            Some(name) => name.clone(),
            None => pod.chars().take(8).collect(),
        })
    }

    /// The same, and whether it is dead.
    pub fn pod_in_short(&self) -> String {
        let Some(name) = self.pod_name() else {
            return "-".to_owned();
        };
        match self.pod_alive {
            Some(false) => format!("{name} (dead)"),
            _ => name,
        }
    }

    /// All that is known of it.
    pub fn pod_in_full(&self) -> String {
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
