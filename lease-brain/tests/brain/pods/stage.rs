//! A database of pods, and what is really stored of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease_brain::cluster::{PodError, PodLiveness, PodRegistry, PodSettings};
use lease_shared::{PodId, apply_time_limits};
use mongodb::bson::{Document, doc};
use mongodb::{Collection, Database};
use test_mongo::{Mongod, TestMongo, admin_command, eventually};
use tokio::task::JoinHandle;

/// For what takes no time but the scheduler's and the server's, on a loaded machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) struct Stage {
    pub(crate) mongo: TestMongo,
    pub(crate) database: Database,
}

/// A pod on one server, whose heartbeats no test waits for.
pub(crate) fn settings(node: &str) -> PodSettings {
    PodSettings {
        cluster_id: "default".to_owned(),
        node_name: node.to_owned(),
        endpoint: format!("http://{node}.example:7311"),
        labels: BTreeMap::new(),
        heartbeat: Duration::from_secs(10),
        stale: Duration::from_secs(30),
    }
}

/// The same pod, in a hurry.
pub(crate) fn quick(node: &str, heartbeat: u64, stale: u64) -> PodSettings {
    PodSettings {
        heartbeat: Duration::from_millis(heartbeat),
        stale: Duration::from_millis(stale),
        ..settings(node)
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::on(TestMongo::new().await.unwrap()).await
    }

    pub(crate) async fn on(mongo: TestMongo) -> Self {
        let client = mongo.client_with(apply_time_limits).await.unwrap();
        let database = client.database(mongo.name());
        Self { mongo, database }
    }

    pub(crate) async fn join(&self, settings: PodSettings) -> Arc<PodRegistry> {
        let join = tokio::time::timeout(SOON, PodRegistry::join(&self.database, settings));
        Arc::new(join.await.expect("an answer").unwrap())
    }

    pub(crate) async fn liveness(&self) -> PodLiveness {
        PodLiveness::read(&self.database, None).await.unwrap()
    }

    pub(crate) fn rows(&self) -> Collection<Document> {
        self.mongo.database().collection("brain_pods")
    }

    pub(crate) async fn row(&self, pod: &PodId) -> Option<Document> {
        let filter = doc! { "_id": pod.as_str() };
        self.rows().find_one(filter).await.unwrap()
    }

    pub(crate) async fn status(&self, pod: &PodId) -> String {
        let row = self.row(pod).await.unwrap();
        row.get_str("status").unwrap().to_owned()
    }

    /// Makes a pod look as if it had been heard that much longer ago.
    pub(crate) async fn age(&self, pod: &PodId, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap();
        let earlier = doc! { "$subtract": ["$lastHeartbeatAt", millis] };
        let older = vec![doc! { "$set": { "lastHeartbeatAt": earlier } }];
        let filter = doc! { "_id": pod.as_str() };
        let aged = self.rows().update_one(filter, older).await.unwrap();
        assert_eq!(aged.matched_count, 1, "{pod} is there to be aged");
    }

    /// Waits until a pod has been heard after this heartbeat.
    pub(crate) async fn heard_after(&self, pod: &PodId, earlier: mongodb::bson::DateTime) {
        eventually("a heartbeat", SOON, || async {
            let row = self.rows().find_one(doc! { "_id": pod.as_str() }).await?;
            Ok(row.is_some_and(|row| row.get_datetime("lastHeartbeatAt").unwrap() > &earlier))
        })
        .await
        .unwrap();
    }
}

/// The heartbeats of a pod, until it is dropped.
pub(crate) struct Beating(pub(crate) JoinHandle<Result<(), PodError>>);

impl Beating {
    pub(crate) fn of(pod: &Arc<PodRegistry>) -> Self {
        let pod = Arc::clone(pod);
        Self(tokio::spawn(async move { pod.keep_alive().await }))
    }

    /// How they end by themselves.
    pub(crate) async fn end(mut self) -> Result<(), PodError> {
        let end = tokio::time::timeout(SOON, &mut self.0);
        end.await.expect("the heartbeats end").unwrap()
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns when the pod was told that its heartbeat was late.
pub(crate) async fn told(pod: &PodRegistry) {
    let late = tokio::time::timeout(SOON, pod.late());
    late.await.expect("told that its heartbeat was late");
}

/// Whether that was told by now.
pub(crate) async fn is_told(pod: &PodRegistry) -> bool {
    tokio::time::timeout(Duration::ZERO, pod.late())
        .await
        .is_ok()
}

/// Returns when the first command has met the fail point of a server on which none was set before.
pub(crate) async fn entered(server: &Mongod) {
    let wait =
        doc! { "waitForFailPoint": "failCommand", "timesEntered": 1_i64, "maxTimeMS": 20_000 };
    admin_command(&server.uri(), wait).await.unwrap();
}
