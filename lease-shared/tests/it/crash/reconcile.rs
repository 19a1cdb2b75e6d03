//! Deaths of a reconciler between any two of its corrections.

use mongodb::bson::doc;

use super::{Prepared, at_every_point};
use crate::protocol::Order;

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_of_an_orphan_that_dies_loses_no_slot() {
    at_every_point(async |scene, _| {
        let orphan = scene.hold("soft", "acme/thesis/ada").await;
        let live = scene.hold("soft", "acme/thesis/bob").await;
        scene.forget(&orphan).await;
        Prepared {
            order: Order::Reconcile,
            bystanders: vec![live],
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_of_empty_counters_that_dies_loses_no_slot() {
    at_every_point(async |scene, _| {
        let gone = scene.hold("soft", "acme/thesis/ada").await;
        scene.release(&[gone]).await;
        Order::Reconcile.into()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_of_a_revoked_lease_that_dies_loses_no_slot() {
    at_every_point(async |scene, _| {
        let revoked = scene.hold("soft", "acme/thesis/ada").await;
        let revoking = doc! { "$set": {
            "state": "REVOKING",
            "revocation": { "reason": "idle", "at": "$$NOW", "attempts": 0, "nextTryAt": "$$NOW" },
        } };
        let holders = scene.world.holders();
        holders
            .update_one(doc! { "_id": revoked }, vec![revoking])
            .await
            .unwrap();
        Order::Reconcile.into()
    })
    .await;
}
