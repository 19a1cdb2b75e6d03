//! Deaths over a clean-up: while it is claimed, and between the end of its document and the return of its slots.

use super::at_every_point;
use crate::protocol::{CleanUp, Order};

async fn cleaning_up(kind: &str, what: CleanUp) {
    at_every_point(async |scene, _| {
        let token = scene.hold_in("pod-a", kind, "ada").await;
        scene.revoked(&token).await;
        Order::CleanUp(token, what).into()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_up_that_dies_is_finished_by_another_and_loses_no_slot() {
    for kind in ["soft", "hard"] {
        cleaning_up(kind, CleanUp::RenewAndFinish).await;
    }
    cleaning_up("hard", CleanUp::Finish).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_clean_up_that_dies_is_finished_by_another() {
    cleaning_up("hard", CleanUp::Fail).await;
}

async fn operating(order: fn(String) -> Order) {
    at_every_point(async |scene, _| {
        let token = scene.hold_in("pod-a", "hard", "ada").await;
        scene.revoked(&token).await;
        order(token).into()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_has_it_tried_again_and_dies_loses_no_clean_up() {
    operating(Order::RetryCleanUp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_gives_it_up_and_dies_loses_no_slot() {
    operating(Order::AbandonCleanUp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_dies_saying_that_it_has_ended_loses_no_clean_up() {
    at_every_point(async |scene, _| {
        let token = scene.hold("hard", "acme/thesis/ada").await;
        scene.revoked(&token).await;
        Order::Release(token).into()
    })
    .await;
}
