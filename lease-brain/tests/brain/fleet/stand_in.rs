//! A pod that is nothing but its heartbeats: the others take it for alive, and it cleans up nothing by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease_brain::cluster::{PodRegistry, PodSettings};
use lease_shared::PodId;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Fleet;

/// Dies when dropped.
pub(crate) struct StandIn {
    pub(crate) id: PodId,
    beating: JoinHandle<()>,
}

impl StandIn {
    /// One that others try to reach there.
    pub(crate) async fn at(fleet: &Fleet, endpoint: &str) -> Self {
        let settings = PodSettings {
            cluster_id: "default".to_owned(),
            node_name: "stand-in".to_owned(),
            endpoint: endpoint.to_owned(),
            labels: BTreeMap::new(),
            heartbeat: Duration::from_millis(200),
            stale: Duration::from_secs(2),
        };
        let registry = PodRegistry::join(fleet.mongo.database(), settings).await;
        let registry = Arc::new(registry.unwrap());
        registry.running().await.unwrap();
        let id = registry.pod().clone();
        let beating = tokio::spawn(async move { drop(registry.keep_alive().await) });
        Self { id, beating }
    }

    /// One whose port is closed.
    pub(crate) async fn out_of_reach(fleet: &Fleet) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", port.local_addr().unwrap());
        drop(port);
        Self::at(fleet, &endpoint).await
    }

    pub(crate) fn die(&self) {
        self.beating.abort();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.die();
    }
}
