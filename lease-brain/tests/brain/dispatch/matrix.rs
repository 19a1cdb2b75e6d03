//! Every row of the dispatch matrix whose pods are alive or dead, and can be reached.

use std::time::Duration;

use crate::fleet::{Answer, Fleet, Plug, PodOptions, token};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_holds_itself_is_cleaned_up_there() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let (pod, b, c) = tokio::join!(fleet.pod("a"), fleet.pod("b"), fleet.pod("c"));
    let bound = token(
        fleet
            .lease("ada", Some(&pod), true, &plug.url("/bound"))
            .await,
    );
    let free = token(
        fleet
            .lease("bob", Some(&pod), false, &plug.url("/free"))
            .await,
    );
    pod.revoke(&bound).await;
    pod.revoke(&free).await;
    fleet.gone(&bound).await;
    fleet.gone(&free).await;
    assert_eq!(
        (plug.calls("/bound").begun, plug.calls("/free").begun),
        (1, 1)
    );
    assert_eq!(pod.handled().await, 2);
    assert_eq!((b.handled().await, c.handled().await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_pod_holds_is_cleaned_up_by_one_of_all() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let pods = tokio::join!(fleet.pod("a"), fleet.pod("b"), fleet.pod("c"));
    let lease = token(fleet.lease("ada", None, false, &plug.url("/a")).await);
    fleet.age(Duration::from_secs(601)).await;
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 1);
    let handled = tokio::join!(pods.0.handled(), pods.1.handled(), pods.2.handled());
    assert_eq!(handled.0 + handled.1 + handled.2, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_living_pod_holds_is_cleaned_up_there() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let patient = PodOptions::with(&["--stale=60s"]);
    let (a, b, c) = tokio::join!(fleet.pod("a"), fleet.pod_with("b", patient), fleet.pod("c"));
    let bound = token(
        fleet
            .lease("ada", Some(&b), true, &plug.url("/bound"))
            .await,
    );
    let free = token(
        fleet
            .lease("bob", Some(&b), false, &plug.url("/free"))
            .await,
    );
    // So that another takes it up, and has to ask.
    b.pause();
    for lease in [&bound, &free] {
        a.revoke(lease).await;
        assert_ne!(fleet.claimed(lease).await, b.id.to_string());
    }
    b.resume();
    fleet.gone(&bound).await;
    fleet.gone(&free).await;
    assert_eq!(
        (plug.calls("/bound").begun, plug.calls("/free").begun),
        (1, 1)
    );
    assert_eq!(b.handled().await, 2);
    assert_eq!((a.handled().await, c.handled().await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_pod_held_outside_itself_is_cleaned_up_by_a_survivor() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let (mut dead, b, c) = tokio::join!(fleet.pod("a"), fleet.pod("b"), fleet.pod("c"));
    let lease = token(
        fleet
            .lease("ada", Some(&dead), false, &plug.url("/a"))
            .await,
    );
    dead.kill();
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 1);
    assert_eq!(b.handled().await + c.handled().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_died_with_its_pod_needs_no_handler() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let (mut dead, b, c) = tokio::join!(fleet.pod("a"), fleet.pod("b"), fleet.pod("c"));
    let lease = token(fleet.lease("ada", Some(&dead), true, &plug.url("/a")).await);
    dead.kill();
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 0);
    assert_eq!((b.handled().await, c.handled().await), (0, 0));
}
