//! What takes as long as the longest limits are.

use std::time::{Duration, Instant};

use mongodb::bson::doc;
use test_mongo::eventually;

use super::proxy::Proxy;
use crate::fleet::{Actor, Answer, Fleet, Plug, PodOptions, SOON, token};

/// Takes as long as a pod is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn pod_that_hears_of_a_clean_up_when_it_was_given_up_does_not_begin_beside_another() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let proxy = Proxy::new().await;
    let advertise = format!("--advertise={}", proxy.endpoint);
    let behind = PodOptions::with(&["--stale=100s", &advertise]);
    let (a, b) = tokio::join!(fleet.pod("a"), fleet.pod_with("b", behind));
    let lease = token(fleet.lease("ada", Some(&b), false, &plug.url("/a")).await);
    b.pause();
    a.revoke(&lease).await;
    proxy.connected(1).await;
    eventually("its handler runs elsewhere", SOON + SOON, async || {
        Ok(plug.calls("/a").begun == 1)
    })
    .await
    .unwrap();
    b.resume();
    proxy.pass_to(&b.bound());
    proxy.answered().await;
    plug.answer(Answer::Status(200));
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 1);
    assert_eq!((a.handled().await, b.handled().await), (1, 0));
}

/// Takes as long as a pod is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn pod_whose_calls_never_arrive_ends_itself_what_runs_in_it() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    // Takes every call, and passes none on.
    let proxy = Proxy::new().await;
    let advertise = format!("--advertise={}", proxy.endpoint);
    let behind = PodOptions::with(&["--stale=100s", &advertise]);
    let (a, b, c) = tokio::join!(fleet.pod("a"), fleet.pod_with("b", behind), fleet.pod("c"));
    let lease = token(fleet.lease("ada", Some(&b), true, &plug.url("/a")).await);
    // So that another takes it up, and has to ask.
    b.pause();
    a.revoke(&lease).await;
    assert_ne!(fleet.claimed(&lease).await, b.id.to_string());
    proxy.connected(1).await;
    b.resume();
    eventually("its slot is back", SOON + SOON, async || {
        Ok(fleet.holder(&lease).await.is_none() && fleet.booked().await == 0)
    })
    .await
    .unwrap();
    assert_eq!(plug.calls("/a").begun, 1);
    assert_eq!(b.handled().await, 1);
    assert_eq!(a.handled().await + c.handled().await, 0);
    // Nobody has asked a second time: it was left to the pod.
    tokio::time::timeout(Duration::ZERO, proxy.connected(2))
        .await
        .unwrap_err();
}

/// Takes as long as a handler may.
#[tokio::test(flavor = "multi_thread")]
async fn handler_that_hangs_is_ended_after_its_time_and_tried_again() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let actor = Actor::start(&fleet, "a").await;
    let payload = doc! { "url": plug.url("/a") };
    let lease = fleet
        .lease_of("probe", "ada", Some(&actor.pod.id), true, payload)
        .await;
    fleet.revoke(&lease).await;
    plug.called("/a", 1).await;
    let begun = Instant::now();
    eventually("its time is over", SOON + SOON, async || {
        Ok(plug.calls("/a").running == 0)
    })
    .await
    .unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(50),
        "before its claim"
    );
    let revocation = fleet.failed(&lease, 1).await;
    let error = revocation.get_str("lastError").unwrap();
    assert!(error.contains("did not end in its time"), "{error}");
    plug.called("/a", 2).await;
    plug.answer(Answer::Status(200));
    fleet.gone(&lease).await;
    let calls = plug.calls("/a");
    assert_eq!((calls.begun, calls.answered, calls.most_at_once), (2, 1, 1));
}
