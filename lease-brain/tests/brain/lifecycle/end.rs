//! How a pod ends: in order, at once, or because something that should not end did.

use std::time::{Duration, Instant};

use mongodb::bson::doc;
use rustix::process::Signal;
use serde_json::json;
use test_mongo::{Mongod, TestMongo, eventually};

use crate::asking::{get, metric, post};
use crate::fleet::{Answer, Fleet, Plug, Pod, PodOptions, SOON, token};

/// A pod in which a handler hangs.
async fn with_a_hanging_handler(fleet: &Fleet, plug: &Plug, args: &[&str]) -> Pod {
    let pod = fleet.pod_with("a", PodOptions::with(args)).await;
    let lease = token(fleet.lease("ada", Some(&pod), true, &plug.url("/a")).await);
    let call = json!({ "token": lease, "reason": null, "ifPod": null });
    let reply = post(&pod, "/internal/lease/admin/revoke", &call).await;
    assert!(reply.status.is_success(), "{reply:?}");
    plug.called("/a", 1).await;
    pod
}

async fn status(fleet: &Fleet, pod: &Pod) -> String {
    let row = fleet.row(pod).await;
    row.get_str("status").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn first_signal_finishes_what_runs_and_takes_nothing_new() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let mut pod = with_a_hanging_handler(&fleet, &plug, &[]).await;
    pod.signal(Signal::TERM);
    eventually("it says that it stops", SOON, || async {
        Ok(status(&fleet, &pod).await == "STOPPING")
    })
    .await
    .unwrap();
    let ready = get(&pod, "/readyz").await;
    assert_eq!(ready.refusal(), (503, "DRAINING".to_owned()));
    plug.answer(Answer::Status(200));
    assert_eq!(pod.ended(SOON).await.code(), Some(0));
    assert_eq!(status(&fleet, &pod).await, "STOPPED");
    assert_eq!(fleet.booked().await, 0, "its handler ended well");
    assert!(pod.log().contains("drained"), "{}", pod.log());
    // It is not missed.
    let other = fleet.pod("b").await;
    for (state, count) in [("stopped", 1.0), ("dead", 0.0), ("alive", 1.0)] {
        let series = format!("vance_lease_pods{{state=\"{state}\"}}");
        assert_eq!(metric(&other, &series).await, Some(count), "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_ends_in_its_time_whatever_hangs() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let mut pod = with_a_hanging_handler(&fleet, &plug, &["--drain=1s"]).await;
    pod.signal(Signal::TERM);
    assert_eq!(pod.ended(Duration::from_secs(10)).await.code(), Some(0));
    assert_eq!(status(&fleet, &pod).await, "STOPPED");
    assert_eq!(fleet.booked().await, 1, "left to others");
    assert_eq!(plug.calls("/a").begun, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_signal_ends_it_at_once() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let mut pod = with_a_hanging_handler(&fleet, &plug, &["--drain=1h"]).await;
    pod.signal(Signal::TERM);
    eventually("it drains", SOON, || async {
        Ok(pod.log().contains("draining"))
    })
    .await
    .unwrap();
    pod.signal(Signal::TERM);
    pod.ended(Duration::from_secs(10)).await;
    assert!(pod.log().contains("aborted"), "{}", pod.log());
    let row = doc! { "status": { "$ne": "STOPPED" } };
    assert!(fleet.pods().find_one(row).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_ends_in_its_time_while_the_store_is_away() {
    let server = Mongod::start().await.unwrap();
    let fleet = Fleet::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let mut pod = fleet.pod_with("a", PodOptions::with(&["--drain=2s"])).await;
    server.pause().unwrap();
    pod.signal(Signal::TERM);
    let began = Instant::now();
    let ended = pod.ended(SOON).await;
    let took = began.elapsed();
    server.resume().unwrap();
    assert_eq!(ended.code(), Some(0));
    assert!(took < Duration::from_secs(6), "{took:?}: {}", pod.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_whose_name_was_taken_while_it_stood_still_ends_and_says_why() {
    let fleet = Fleet::new().await;
    let mut stalled = fleet.pod("a").await;
    stalled.pause();
    let heir = fleet.pod("a").await;
    stalled.resume();
    let ended = stalled.ended(SOON).await;
    assert_eq!(ended.code(), Some(1));
    let log = stalled.log();
    let said: Vec<&str> = log.lines().filter(|line| !line.starts_with('{')).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("took this node name"), "{said:?}");
    assert!(said[0].contains(heir.id.as_str()), "{said:?}");
    assert_eq!(status(&fleet, &heir).await, "RUNNING");
}
