//! Deaths of one who revokes, between the revocation and the return of its slots above all.

use super::at_every_point;
use crate::protocol::Order;

async fn revoking(kind: &str, order: fn(String) -> Order) {
    at_every_point(async |scene, _| order(scene.hold(kind, "acme/thesis/ada").await).into()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_dies_loses_no_slot_that_comes_back_at_once() {
    revoking("soft", Order::Revoke).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_dies_loses_no_slot_that_comes_back_after_a_clean_up() {
    revoking("hard", Order::Revoke).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_dies_loses_no_commands_slot() {
    revoking("command", Order::Revoke).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_revocation_that_dies_loses_no_slot() {
    for kind in ["soft", "hard", "command"] {
        revoking(kind, Order::ForceRevoke).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_revocation_of_what_is_being_revoked_that_dies_loses_no_slot() {
    at_every_point(async |scene, _| {
        let token = scene.hold("hard", "acme/thesis/ada").await;
        scene.revoked(&token).await;
        Order::ForceRevoke(token).into()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_of_a_dead_pod_that_dies_loses_no_slot() {
    at_every_point(async |scene, _| {
        scene.hold_in("pod-a", "soft", "ada").await;
        scene.hold_in("pod-a", "hard", "bob").await;
        Order::RevokePod("pod-a".to_owned()).into()
    })
    .await;
}
