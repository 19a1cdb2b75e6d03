//! The store was away for longer than a pod may be silent: all look dead to each other, and none is.

use std::time::Duration;

use supervise::BootInstant;
use test_mongo::{Mongod, TestMongo, eventually};

use super::in_touch;
use crate::asking::sweep;
use crate::fleet::{Fleet, PodOptions, SOON, token};

/// Longer than the pods of these tests may be silent.
async fn longer_than_stale() {
    let end = BootInstant::now() + Duration::from_millis(3500);
    eventually("a silence of its time", SOON, async || Ok(end.has_passed()))
        .await
        .unwrap();
}

/// Ends when the pod has swept without a problem since the store came back.
async fn swept(pod: &crate::fleet::Pod) -> lease_brain::api::SweepReply {
    loop {
        let report = sweep(pod).await;
        if report.failed.is_empty() {
            return report;
        }
    }
}

fn patient() -> PodOptions {
    PodOptions::with(&["--heartbeat=1s", "--stale=3s"])
}

#[tokio::test(flavor = "multi_thread")]
async fn outage_of_the_store_kills_no_pod() {
    let mut server = Mongod::start().await.unwrap();
    let fleet = Fleet::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let (sweeping, mut other) = tokio::join!(
        fleet.pod_with("a", patient()),
        fleet.pod_with("b", patient())
    );
    let lease = token(
        fleet
            .lease("ada", Some(&other), true, "http://127.0.0.1:1")
            .await,
    );
    in_touch(&fleet, &sweeping).await;
    server.stop().await.unwrap();
    longer_than_stale().await;
    // The other one is a little slower to say that it is there again.
    other.pause();
    server.restart().await.unwrap();
    let report = swept(&sweeping).await;
    assert_eq!(report.pod, 0, "{report:?}");
    let waiting = report.waiting.unwrap();
    assert!(waiting.contains("not in touch with the store"), "{waiting}");
    other.resume();
    let row = fleet.row(&other).await;
    eventually("it is heard again", SOON, async || {
        Ok(fleet.row(&other).await.get("lastHeartbeatAt") != row.get("lastHeartbeatAt"))
    })
    .await
    .unwrap();
    swept(&sweeping).await;
    assert_eq!(fleet.state(&lease).await, "HELD");
    // One that is dead after all is found dead.
    other.kill();
    fleet.gone(&lease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stall_of_the_store_kills_no_pod() {
    let server = Mongod::start().await.unwrap();
    let fleet = Fleet::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let (sweeping, other) = tokio::join!(
        fleet.pod_with("a", patient()),
        fleet.pod_with("b", patient())
    );
    let lease = token(
        fleet
            .lease("ada", Some(&other), true, "http://127.0.0.1:1")
            .await,
    );
    server.pause().unwrap();
    longer_than_stale().await;
    other.pause();
    server.resume().unwrap();
    // What was under way when the store stood still would count as heard.
    fleet.silence(&other, Duration::from_secs(60)).await;
    assert_eq!(swept(&sweeping).await.pod, 0);
    other.resume();
    assert_eq!(fleet.state(&lease).await, "HELD");
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_has_just_started_believes_nobody_dead_yet() {
    let fleet = Fleet::new().await;
    let patient = PodOptions::with(&["--heartbeat=1s", "--stale=10s"]);
    let other = fleet.pod_with("a", patient).await;
    let lease = token(
        fleet
            .lease("ada", Some(&other), true, "http://127.0.0.1:1")
            .await,
    );
    other.pause();
    fleet.silence(&other, Duration::from_secs(60)).await;
    let new = fleet.pod("b").await;
    let report = sweep(&new).await;
    assert_eq!(report.pod, 0, "{report:?}");
    assert!(report.waiting.is_some(), "{report:?}");
    assert_eq!(fleet.state(&lease).await, "HELD");
    other.resume();
}
