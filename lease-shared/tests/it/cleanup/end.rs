//! With the end of a clean-up its lease is gone and its slots are back.

use std::time::Duration;

use lease_shared::Release;

use super::{claim, exclusive, revoked, types, world};
use crate::support::{World, request, request_by, waiting};

const ADA: &str = "pdf|user|acme/ada";

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_up_that_is_done_gives_back_what_was_kept() {
    for (kind, kept) in [("soft", 0), ("hard", 1)] {
        let world = world().await;
        let token = revoked(&world, kind, Some("pod-a"), "ada").await;
        assert_eq!(world.in_use().await[ADA], kept);
        let cleanup = claim(&world.leases, &token).await.unwrap();
        assert!(cleanup.finish().await.unwrap());
        assert_eq!(world.state(&token).await, None);
        assert_eq!(world.in_use().await[ADA], 0);
    }
}

/// Its poll would come by itself only in the second after.
async fn one_in_line() -> (
    World,
    lease_shared::LeaseToken,
    tokio::task::JoinHandle<bool>,
) {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 1 }\nttlSeconds: 600")
        .await;
    let token = exclusive(&world).await;
    let leases = world.leases.clone();
    let waiter = tokio::spawn(async move {
        let waiting = waiting("pdf", "bob", Duration::from_secs(30));
        leases.acquire(waiting).await.is_ok()
    });
    (world, token, waiter)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_the_slot_gets_it() {
    let (world, token, waiter) = one_in_line().await;
    let cleanup = claim(&world.leases, &token).await.unwrap();
    cleanup.finish().await.unwrap();
    assert!(waiter.await.unwrap());
    let (world, token, waiter) = one_in_line().await;
    assert!(world.leases.cleanups().abandon(&token).await.unwrap());
    assert!(waiter.await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_given_up_is_gone_whoever_works_on_it() {
    let world = world().await;
    let token = exclusive(&world).await;
    let mut worker = claim(&world.leases, &token).await.unwrap();
    assert!(world.leases.cleanups().abandon(&token).await.unwrap());
    assert_eq!(world.state(&token).await, None);
    assert_eq!(world.in_use().await[ADA], 0);
    let next = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    assert!(!worker.renew().await.unwrap());
    assert!(!worker.finish().await.unwrap());
    assert!(!world.leases.cleanups().abandon(&token).await.unwrap());
    next.check().await.unwrap();
    assert_eq!(world.in_use().await[ADA], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_without_a_pod_that_says_it_has_ended_need_not_be_waited_for() {
    let world = world().await;
    let token = revoked(&world, "hard", None, "ada").await;
    let due = async || world.leases.cleanups().due(&types(), 9).await.unwrap();
    assert_eq!(due().await, []);
    assert!(claim(&world.leases, &token).await.is_none());
    let released = world.leases.release_token(&token).await.unwrap();
    assert_eq!(released, Release::AlreadyReleased);
    assert_eq!(due().await.len(), 1);
    assert_eq!(world.in_use().await[ADA], 1, "it is cleaned up first");
    assert!(
        claim(&world.leases, &token)
            .await
            .unwrap()
            .finish()
            .await
            .unwrap()
    );
    assert_eq!(world.in_use().await[ADA], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_holder_without_a_pod_ends_the_wait_as_well() {
    let world = world().await;
    let lease = world
        .leases
        .acquire(request_by("hard", None, "ada"))
        .await
        .unwrap();
    let token = lease.into_token().unwrap();
    world.age(&token, Duration::from_secs(50)).await;
    world
        .leases
        .revoke(&token, &Default::default())
        .await
        .unwrap();
    assert!(claim(&world.leases, &token).await.is_none());
    world.age_cleanup(&token, Duration::from_secs(11)).await;
    assert!(claim(&world.leases, &token).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_hastens_no_other_clean_up_and_none_that_is_under_way() {
    for (kind, pod) in [
        ("hard", Some("pod-a")),
        ("soft", None),
        ("soft", Some("pod-a")),
    ] {
        let world = world().await;
        let token = revoked(&world, kind, pod, "ada").await;
        let cleanup = claim(&world.leases, &token).await.unwrap();
        cleanup.failed("not yet", false).await.unwrap();
        let before = world.holder(&token).await;
        let released = world.leases.release_token(&token).await.unwrap();
        assert_eq!(released, Release::AlreadyReleased);
        assert_eq!(world.holder(&token).await, before, "{kind} {pod:?}");
    }
    let world = world().await;
    let token = revoked(&world, "hard", None, "ada").await;
    world.age_cleanup(&token, Duration::from_secs(61)).await;
    let cleanup = claim(&world.leases, &token).await.unwrap();
    let before = world.holder(&token).await;
    world.leases.release_token(&token).await.unwrap();
    assert_eq!(world.holder(&token).await, before);
    assert!(cleanup.finish().await.unwrap());
}
