//! Many clean-ups at a time.

use mongodb::bson::doc;
use test_mongo::eventually;

use crate::fleet::{Actor, Answer, Fleet, Plug, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn type_whose_handlers_all_hang_does_not_keep_another_waiting() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    plug.answer_path("/quick", Answer::Status(200));
    let actor = Actor::start(&fleet, "a").await;
    let pod = Some(&actor.pod.id);
    for user in 0..30 {
        let payload = doc! { "url": plug.url("/hangs") };
        let user = format!("u{user}");
        let lease = fleet.lease_of("webhook", &user, pod, true, payload).await;
        fleet.revoke(&lease).await;
    }
    // All places that one type gets.
    plug.called("/hangs", 12).await;
    let payload = doc! { "url": plug.url("/quick") };
    let quick = fleet.lease_of("probe", "ada", pod, true, payload).await;
    fleet.revoke(&quick).await;
    fleet.gone_alone(&quick).await;
    let hanging = plug.calls("/hangs");
    assert_eq!((hanging.begun, hanging.answered), (12, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_lost_many_leases_at_once_ends_them_a_few_at_a_time() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let (mut actor, _reaper) = tokio::join!(Actor::start(&fleet, "a"), fleet.pod("b"));
    // Those that fail again and again keep none of the others from their turn.
    plug.answer_path("/fails", Answer::Status(500));
    for user in 0..60 {
        let path = if user < 20 { "/fails" } else { "/a" };
        let user = format!("u{user}");
        actor.acquire(&user, true, &plug.url(path)).await;
    }
    actor.pod.pause();
    eventually("all are reaped", SOON, async || {
        Ok(fleet.holders().count_documents(doc! {}).await? == 0)
    })
    .await
    .unwrap();
    actor.pod.resume();
    plug.called("/a", 12).await;
    // Another type has its own places meanwhile.
    plug.answer_path("/other", Answer::Status(200));
    let payload = doc! { "url": plug.url("/other") };
    let pod = Some(&actor.pod.id);
    let other = fleet.lease_of("webhook", "ada", pod, true, payload).await;
    fleet.revoke(&other).await;
    fleet.gone(&other).await;
    assert_eq!(plug.calls("/a").begun, 12);
    plug.answer(Answer::Status(200));
    plug.called("/a", 40).await;
    plug.idle("/a").await;
    let calls = plug.calls("/a");
    assert_eq!(calls.begun, 40);
    assert!(calls.most_at_once <= 16, "{calls:?}");
}
