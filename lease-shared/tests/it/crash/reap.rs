//! Deaths of a sweeper, between a revocation and the return of its slots above all.

use super::at_every_point;
use crate::protocol::Order;

async fn sweeping_an_idle(kind: &str) {
    at_every_point(async |scene, _| {
        let idle = scene.hold(kind, "acme/thesis/ada").await;
        scene.age(&idle).await;
        Order::Sweep.into()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_dies_loses_no_slot_that_comes_back_at_once() {
    sweeping_an_idle("soft").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_dies_loses_no_slot_that_comes_back_after_a_clean_up() {
    sweeping_an_idle("hard").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_dies_loses_no_commands_slot() {
    sweeping_an_idle("command").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_dies_loses_no_unfinished_acquires_slot() {
    at_every_point(async |scene, _| {
        let unfinished = scene.hold("soft", "acme/thesis/ada").await;
        scene.never_finished(&unfinished).await;
        scene.age(&unfinished).await;
        Order::Sweep.into()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_of_several_that_dies_loses_no_slot() {
    at_every_point(async |scene, _| {
        let soft = scene.hold("soft", "acme/thesis/ada").await;
        let command = scene.hold("command", "acme/thesis/bob").await;
        let unfinished = scene.hold("soft", "acme/other/cid").await;
        scene.never_finished(&unfinished).await;
        for token in [soft, command, unfinished] {
            scene.age(&token).await;
        }
        Order::Sweep.into()
    })
    .await;
}
