//! A pod stands still for so long that it is taken for dead, and comes back.

use mongodb::bson::doc;
use test_mongo::eventually;

use crate::fleet::{Actor, Answer, Fleet, Plug, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_lost_while_it_stood_still_it_ends_itself_and_nothing_else() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let (mut actor, _reaper) = tokio::join!(Actor::start(&fleet, "a"), fleet.pod("b"));
    let released = actor.acquire("bob", true, &plug.url("/released")).await;
    assert_eq!(actor.release(&released).await, "Released");
    let lost = actor.acquire("ada", true, &plug.url("/lost")).await;
    let known = actor.acquire("eve", true, &plug.url("/known")).await;
    fleet.revoke(&known).await;
    assert_eq!(actor.check(&known).await, "lost");
    plug.called("/known", 1).await;
    fleet.gone_alone(&known).await;
    plug.answer_call("/lost", 1, Answer::Status(500));
    actor.pod.pause();
    fleet.gone(&lost).await;
    assert_eq!(
        plug.calls("/lost").begun,
        0,
        "it died with its pod, as others see it"
    );
    actor.pod.resume();
    plug.called("/lost", 2).await;
    plug.idle("/lost").await;
    assert_eq!(actor.check(&lost).await, "lost");
    // What it takes from now on it has.
    let kept = actor.acquire("ada", true, &plug.url("/kept")).await;
    assert_eq!(actor.check(&kept).await, "held");
    assert_eq!(plug.calls("/lost").begun, 2, "again after a failure");
    assert_eq!(plug.calls("/known").begun, 1);
    assert_eq!(plug.calls("/released").begun, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_late_pod_still_holds_is_left_alone() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let mut actor = Actor::start(&fleet, "a").await;
    let lease = actor.acquire("ada", true, &plug.url("/a")).await;
    actor.pod.pause();
    fleet.silent(&actor.pod.id).await;
    actor.pod.resume();
    eventually("it notices", SOON, async || {
        Ok(actor.pod.log().contains("asking about all its leases"))
    })
    .await
    .unwrap();
    let running = doc! { "_id": actor.pod.id.as_str(), "status": "RUNNING" };
    assert_eq!(fleet.pods().count_documents(running).await.unwrap(), 1);
    assert_eq!(actor.check(&lease).await, "held");
    assert_eq!(actor.release(&lease).await, "Released");
    fleet.gone(&lease).await;
    assert_eq!(plug.all().begun, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_tried_in_vain_meanwhile_the_pod_does_as_soon_as_it_is_back() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(500)).await;
    let (mut actor, other) = tokio::join!(Actor::start(&fleet, "a"), Actor::start(&fleet, "b"));
    let lease = actor.acquire("ada", false, &plug.url("/a")).await;
    actor.pod.pause();
    fleet.failed(&lease, 1).await;
    drop(other);
    // As if it had been tried for a long time.
    let later = doc! { "$set": { "revocation.nextTryAt": { "$add": ["$$NOW", 3_600_000] } } };
    fleet
        .holders()
        .update_many(doc! {}, vec![later])
        .await
        .unwrap();
    plug.idle("/a").await;
    plug.answer(Answer::Status(200));
    actor.pod.resume();
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").most_at_once, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_comes_back_leaves_alone_what_another_has_cleaned_up_outside_it() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    plug.answer_path("/lost", Answer::Status(500));
    let (mut actor, _other) = tokio::join!(Actor::start(&fleet, "a"), Actor::start(&fleet, "b"));
    let lost = actor.acquire("bob", true, &plug.url("/lost")).await;
    let lease = actor.acquire("ada", false, &plug.url("/a")).await;
    actor.pod.pause();
    plug.called("/a", 1).await;
    fleet.gone_alone(&lost).await;
    actor.pod.resume();
    // It has gone round with all that it lost.
    plug.called("/lost", 3).await;
    assert_eq!(plug.calls("/a").begun, 1);
    plug.answer(Answer::Status(200));
    fleet.gone(&lease).await;
    // It has gone round once more, and what lives outside it was cleaned up: it may be in others' hands.
    let rounds = plug.calls("/lost").begun;
    plug.called("/lost", rounds + 1).await;
    assert_eq!(plug.calls("/a").begun, 1);
}
