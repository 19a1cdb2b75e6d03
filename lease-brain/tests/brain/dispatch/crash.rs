//! Pods are killed while they clean up.

use std::time::Duration;

use mongodb::bson::doc;
use rustix::process::Signal;

use crate::fleet::{Answer, Fleet, Plug, Pod, PodOptions, token};

/// Longer than any claim.
const CLAIM: Duration = Duration::from_secs(61);

/// Kills the pod of that id, and gives the others.
fn without(pods: Vec<Pod>, id: &str) -> Vec<Pod> {
    let (mut dead, others): (Vec<_>, Vec<_>) =
        pods.into_iter().partition(|pod| pod.id.as_str() == id);
    assert_eq!(dead.len(), 1, "{id} is one of them");
    dead[0].kill();
    others
}

async fn pods(fleet: &Fleet) -> Vec<Pod> {
    let (a, b, c) = tokio::join!(fleet.pod("a"), fleet.pod("b"), fleet.pod("c"));
    vec![a, b, c]
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_up_whose_pods_are_killed_over_it_goes_on_in_the_last() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let mut pods = pods(&fleet).await;
    let lease = token(fleet.lease("ada", None, false, &plug.url("/a")).await);
    fleet.age(Duration::from_secs(601)).await;
    for times in 1..=2 {
        plug.called("/a", times).await;
        let by = fleet.claimed(&lease).await;
        pods = without(pods, &by);
        plug.idle("/a").await;
        fleet.age_cleanups(CLAIM).await;
    }
    plug.called("/a", 3).await;
    plug.answer(Answer::Status(200));
    fleet.gone(&lease).await;
    let calls = plug.calls("/a");
    assert_eq!((calls.begun, calls.answered, calls.most_at_once), (3, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_is_killed_when_its_handler_has_ended_leaves_nothing_behind() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let mut pods = pods(&fleet).await;
    // A little later each time, somewhere before, in and after the write that ends the clean-up.
    for turns in [0, 2_000] {
        let path = format!("/{turns}");
        let lease = token(fleet.lease("ada", None, false, &plug.url(&path)).await);
        fleet.age(Duration::from_secs(601)).await;
        plug.called(&path, 1).await;
        let by = fleet.claimed(&lease).await;
        plug.answer_path(&path, Answer::Status(200));
        plug.idle(&path).await;
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        pods = without(pods, &by);
        fleet.age_cleanups(CLAIM).await;
        fleet.gone_alone(&lease).await;
        // Should it have died between the document's end and its slot's, the next who wants the slot frees it.
        let next = fleet.lease("ada", None, false, &plug.url(&path)).await;
        next.release().await.unwrap();
        let calls = plug.calls(&path);
        assert!((1..=2).contains(&calls.begun), "{calls:?}");
        assert_eq!(calls.most_at_once, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_revoked_by_a_process_that_died_at_once_is_cleaned_up_by_whoever_comes() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let mut first = fleet.pod("a").await;
    let lease = token(
        fleet
            .lease("ada", Some(&first), false, &plug.url("/a"))
            .await,
    );
    first.kill();
    fleet.revoke(&lease).await;
    let _second = fleet.pod("b").await;
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_draining_pod_does_not_finish_another_does() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let mut first = fleet.pod_with("a", PodOptions::with(&["--drain=1s"])).await;
    let mut leases = Vec::new();
    for user in 0..300 {
        let (user, url) = (format!("u{user}"), plug.url("/a"));
        leases.push(token(fleet.lease(&user, Some(&first), false, &url).await));
    }
    for lease in &leases {
        fleet.revoke(lease).await;
    }
    plug.called("/a", 12).await;
    first.signal(Signal::TERM);
    assert!(first.ended(Duration::from_secs(15)).await.success());
    plug.idle("/a").await;
    let cut_off = plug.calls("/a");
    assert!(cut_off.most_at_once <= 16, "{cut_off:?}");
    let revoking = doc! { "state": "REVOKING" };
    let left = fleet.holders().count_documents(revoking).await.unwrap();
    assert_eq!(left, 300);
    plug.answer(Answer::Status(200));
    fleet.age_cleanups(CLAIM).await;
    let second = fleet.pod("b").await;
    for lease in &leases {
        fleet.gone_alone(lease).await;
    }
    fleet.only_booked(0).await;
    assert_eq!(second.handled().await, 300);
    assert_eq!(plug.calls("/a").begun, cut_off.begun + 300);
    assert!(plug.calls("/a").most_at_once <= 16);
}
