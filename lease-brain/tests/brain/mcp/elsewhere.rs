//! Sessions whose pod is dead: another ends them, or has nothing to end.

use std::fs;
use std::time::Duration;

use serde_json::json;
use test_mcp::fake::{FakeMcp, Fault, Gone, Step};

use super::{ADA, call, fake, parameters, result};
use crate::asking::metric;
use crate::fleet::{Fleet, Pod, PodOptions};
use crate::sweep::in_touch;

async fn deleted(pod: &Pod, outcome: &str) -> Option<f64> {
    metric(pod, &format!("vance_mcp_delete{{outcome=\"{outcome}\"}}")).await
}

/// A session whose pod was killed, and the pod that lives.
async fn left_behind(
    fleet: &Fleet,
    server: &FakeMcp,
    options: &[&str],
) -> (lease_shared::LeaseToken, Pod) {
    let with = || PodOptions::with(options);
    let (mut pod, other) = tokio::join!(fleet.pod_with("a", with()), fleet.pod_with("b", with()));
    in_touch(fleet, &other).await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    assert_eq!(server.live().len(), 1);
    let token = fleet.session_of("ada").await;
    pod.kill();
    (token, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_pod_ends_it_with_the_tools_own_authorisation() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let secrets = tempfile::tempdir().unwrap();
    fs::create_dir_all(secrets.path().join("acme/thesis")).unwrap();
    fs::write(secrets.path().join("acme/thesis/KEY"), "hunter2").unwrap();
    let mut with_auth = parameters(&server);
    with_auth["auth"] = json!({ "type": "bearer", "token": "{{secret:KEY}}" });
    fleet.tool_in("acme", "thesis", "fake", &with_auth).await;
    let dir = format!("--secrets-dir={}", secrets.path().display());
    let (token, other) = left_behind(&fleet, &server, &[&dir]).await;
    fleet.gone(&token).await;
    assert!(server.live().is_empty());
    let [delete] = &server.requests_of(Step::Delete)[..] else {
        panic!("{:?}", server.requests());
    };
    assert_eq!(delete.authorization.as_deref(), Some("Bearer hunter2"));
    assert_eq!(deleted(&other, "gone").await, Some(1.0));
    server.assert_no_unexpected();
}

#[tokio::test(flavor = "multi_thread")]
async fn session_that_is_gone_already_is_done() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let (token, other) = left_behind(&fleet, &server, &[]).await;
    server.expire(Gone::NotFound);
    fleet.gone(&token).await;
    assert_eq!(deleted(&other, "gone").await, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_comes_back_when_the_server_has_confirmed_and_not_before() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    server.fail(Step::Delete, Fault::Status(503, "restarting"));
    let (token, other) = left_behind(&fleet, &server, &[]).await;
    let tried = fleet.failed(&token, 1).await;
    assert!(
        tried.get_str("lastError").unwrap().contains("503"),
        "{tried:?}"
    );
    assert_eq!(fleet.booked().await, 1);
    server.heal(Step::Delete);
    fleet.age_cleanups(Duration::from_secs(3600)).await;
    fleet.gone(&token).await;
    assert!(server.live().is_empty());
    assert_eq!(deleted(&other, "gone").await, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_where_the_tool_points_elsewhere_by_now() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let (with, second) = (|| PodOptions::with(&[]), FakeMcp::start().await);
    let (mut pod, other) = tokio::join!(fleet.pod_with("a", with()), fleet.pod_with("b", with()));
    in_touch(&fleet, &other).await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    let token = fleet.session_of("ada").await;
    pod.pause();
    fleet.tool("fake", &parameters(&second)).await;
    pod.kill();
    fleet.gone(&token).await;
    assert_eq!(
        (server.count(Step::Delete), second.requests().len()),
        (0, 0)
    );
    assert_eq!(deleted(&other, "omitted").await, Some(1.0));
    assert!(
        other.log().contains("points to another endpoint"),
        "{}",
        other.log()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn session_of_a_living_pod_is_ended_by_that_pod() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let (pod, other) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    let token = fleet.session_of("ada").await;
    other.revoke(&token).await;
    fleet.gone(&token).await;
    assert!(server.live().is_empty());
    assert_eq!(server.count(Step::Delete), 1);
    assert_eq!(deleted(&other, "gone").await, None);
    assert_eq!(pod.handled().await, 1);
}
