//! Deaths while acquiring: granted, refused at each level, and after what was expired has been taken.

use lease_shared::Level;

use super::{Prepared, at_every_point};
use crate::actor::want;
use crate::protocol::Order;

fn acquire() -> Order {
    Order::Acquire(want("soft", "ada"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_use_that_dies_loses_no_slot() {
    at_every_point(async |_, _| acquire().into()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_dies_loses_no_slot() {
    at_every_point(async |_, actor| {
        let token = actor.acquire(want("soft", "ada")).await;
        actor.ask(Order::Release(token)).await;
        actor.ask(Order::Close).await;
        acquire().into()
    })
    .await;
}

/// What was booked below the full level is rolled back, or found later.
async fn refused_at(level: Level) {
    at_every_point(async |scene, _| Prepared {
        bystanders: scene.fill(level).await,
        order: acquire(),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refused_at_the_user_level_that_dies_loses_no_slot() {
    refused_at(Level::User).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refused_at_the_project_level_that_dies_loses_no_slot() {
    refused_at(Level::Project).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refused_at_the_tenant_level_that_dies_loses_no_slot() {
    refused_at(Level::Tenant).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refused_at_the_global_level_that_dies_loses_no_slot() {
    refused_at(Level::Global).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_taking_an_idle_lease_and_an_orphan_loses_no_slot() {
    at_every_point(async |scene, _| {
        let idle = scene.hold("soft", "acme/thesis/bob").await;
        let orphan = scene.hold("soft", "acme/thesis/cid").await;
        scene.age(&idle).await;
        scene.forget(&orphan).await;
        acquire().into()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_taking_a_command_and_an_unfinished_acquire_loses_no_slot() {
    at_every_point(async |scene, _| {
        let command = scene.hold("command", "acme/thesis/bob").await;
        let unfinished = scene.hold("soft", "acme/thesis/cid").await;
        scene.never_finished(&unfinished).await;
        scene.age(&command).await;
        scene.age(&unfinished).await;
        acquire().into()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_taking_an_exclusive_lease_loses_no_slot() {
    at_every_point(async |scene, _| {
        let exclusive = scene.hold("hard", "acme/other/ada").await;
        scene.age(&exclusive).await;
        acquire().into()
    })
    .await;
}
