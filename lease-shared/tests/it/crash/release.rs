//! Deaths while releasing, between the end of the holder and the return of its slots above all.

use super::at_every_point;
use crate::actor::want;
use crate::protocol::Order;

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_dies_loses_no_slot() {
    at_every_point(async |_, actor| {
        let token = actor.acquire(want("soft", "ada")).await;
        Order::Release(token).into()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_a_revoked_command_that_dies_loses_no_slot() {
    at_every_point(async |scene, actor| {
        let token = actor.acquire(want("command", "ada")).await;
        let revoked = mongodb::bson::doc! { "$set": {
            "state": "REVOKING",
            "revocation": { "reason": "revoke", "at": "$$NOW", "attempts": 0, "nextTryAt": "$$NOW" },
        } };
        let holders = scene.world.holders();
        holders
            .update_one(mongodb::bson::doc! { "_id": &token }, vec![revoked])
            .await
            .unwrap();
        Order::Release(token).into()
    })
    .await;
}
