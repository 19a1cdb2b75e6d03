//! What is shown is old, and the page says so.

use rustix::process::Signal;
use test_browser::tools;
use test_mongo::{Mongod, TestMongo};

use super::{Desk, Wanted, row, token_of};
use crate::fleet::{Fleet, SOON};
use crate::insights::World;

const BADGE: &str = "document.querySelector('#badge').textContent";

#[tokio::test(flavor = "multi_thread")]
async fn store_that_is_down_is_said_and_its_return_is_seen() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let mut server = Mongod::start().await.unwrap();
    let fleet = Fleet::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let patient = ["--heartbeat=10s", "--stale=1m", "--reap-interval=1h"];
    let world = World::on(fleet, &patient).await;
    let lease = world.take(Wanted::of("grace")).await;
    let row = row(&token_of(&lease));
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme/holders").await;
    desk.until_text(&row, "grace").await.unwrap();

    server.kill().unwrap();
    desk.until(&format!("{BADGE} === 'store does not answer'"))
        .await;
    desk.until_text("#badge-age", "what you see is from")
        .await
        .unwrap();
    desk.until_text("#badge-age", " s ago").await.unwrap();
    desk.until_text(&row, "grace").await.unwrap();
    // A question needs the store.
    desk.click(&format!("{row} [data-f=revoke]")).await.unwrap();
    desk.until_text("#dialog", "The store does not answer")
        .await
        .unwrap();
    desk.until_text("#dialog", "acquires are failing closed")
        .await
        .unwrap();
    desk.click("#dialog [data-close]").await.unwrap();

    server.restart().await.unwrap();
    desk.live().await;
    assert_eq!(desk.text("#badge-age").await.unwrap(), "");
    desk.click(&format!("{row} [data-f=revoke]")).await.unwrap();
    desk.until_text("#dialog", "Revoke bench?").await.unwrap();
    desk.is_quiet_but_for_refusals().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn page_without_a_brain_says_since_when_it_is_stale() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let mut world = World::with_secret(&["--stale=1m", "--reap-interval=1h"]).await;
    let lease = world.take(Wanted::of("grace")).await;
    let row = row(&token_of(&lease));
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme/holders").await;
    let stale = async || {
        desk.until(&format!("{BADGE} === 'stale'")).await;
        desk.until_text("#badge-age", "since ").await.unwrap();
        desk.until_text(&row, "grace").await.unwrap();
    };
    world.pod.pause();
    stale().await;
    world.pod.resume();
    desk.live().await;

    // One that stops does not wait for the pages that are open.
    world.pod.signal(Signal::TERM);
    world.pod.ended(SOON).await;
    stale().await;
    // What cannot be done is said, and not that it was done.
    desk.click(&format!("{row} [data-f=revoke]")).await.unwrap();
    desk.until_text("#outcome", "The brain did not answer")
        .await
        .unwrap();
    desk.is_quiet_but_for_refusals().await;
}
