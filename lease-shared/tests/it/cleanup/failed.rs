//! A clean-up that does not succeed is tried again, later each time, and comes to an operator's eyes in the end.

use std::time::Duration;

use lease_shared::CleanupPhase;
use mongodb::bson::{Bson, DateTime, doc};

use super::{CLAIM_OVER, claim, cleaner, exclusive, revoked, types, world};
use crate::support::{World, pod_id};

/// How far away the next try is, by the stored clock of the last write.
async fn pause(world: &World, token: &lease_shared::LeaseToken) -> i64 {
    let shown = world.leases.views().holder(token).await.unwrap().unwrap();
    shown.cleanup.unwrap().next_try_in_seconds
}

#[tokio::test(flavor = "multi_thread")]
async fn pauses_grow_and_after_ten_tries_it_is_failed_and_tried_hourly() {
    let world = world().await;
    let token = exclusive(&world).await;
    let mut last = 0;
    for attempt in 1..=11 {
        let cleanup = claim(&world.leases, &token).await.unwrap();
        assert_eq!(cleanup.attempts, attempt);
        let next = cleanup.failed("$ttlSeconds", false).await.unwrap();
        assert!(claim(&world.leases, &token).await.is_none(), "not due yet");
        assert_eq!(next.failed, attempt >= 10);
        let wait = pause(&world, &token).await;
        let told = next.after.as_secs() as i64;
        assert!(
            (told - 1..=told + 1).contains(&wait),
            "{wait} s, not {told} s"
        );
        let bounds = match attempt {
            1 => 0..=2,
            9 => 450..=750,
            10.. => 2700..=4500,
            _ => last / 2..=750,
        };
        assert!(bounds.contains(&wait), "pause {attempt} is {wait} s");
        last = wait;
        let totals = world.leases.views().totals().await.unwrap();
        let failed = u64::from(attempt >= 10);
        assert_eq!((totals.failed, totals.revoking), (failed, 1 - failed));
        world.age_cleanup(&token, Duration::from_secs(4600)).await;
    }
    let shown = world.leases.views().holder(&token).await.unwrap().unwrap();
    let cleanup = shown.cleanup.unwrap();
    assert_eq!(cleanup.phase, CleanupPhase::Failed);
    assert_eq!(cleanup.last_error.as_deref(), Some("$ttlSeconds"));
    assert_eq!(world.in_use().await["pdf|global|"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_has_it_tried_at_once_as_if_for_the_first_time() {
    let world = world().await;
    let token = exclusive(&world).await;
    let failed = doc! { "$set": { "revocation.attempts": 9_i64 } };
    world.set(&token, failed).await;
    let cleanup = claim(&world.leases, &token).await.unwrap();
    let retry = async || world.leases.cleanups().retry(&token).await.unwrap();
    assert!(!retry().await, "it is under way");
    assert!(cleanup.failed("stuck", false).await.unwrap().failed);
    assert!(retry().await);
    assert_eq!(world.leases.views().totals().await.unwrap().failed, 0);
    let again = claim(&world.leases, &token).await.unwrap();
    assert_eq!(again.attempts, 1);
    world.age_cleanup(&token, CLAIM_OVER).await;
    assert!(retry().await, "whoever had it is gone");
    assert!(again.finish().await.unwrap());
    assert!(!retry().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_error_the_first_500_characters_are_kept() {
    let world = world().await;
    let token = exclusive(&world).await;
    let cleanup = claim(&world.leases, &token).await.unwrap();
    cleanup.failed(&"é".repeat(9000), false).await.unwrap();
    let shown = world.leases.views().holder(&token).await.unwrap().unwrap();
    assert_eq!(shown.cleanup.unwrap().last_error.unwrap(), "é".repeat(500));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_pod_is_due_when_that_pod_is_dead() {
    let world = world().await;
    let cleanups = world.leases.cleanups();
    let fail = async |token, by_pod| {
        let cleanup = claim(&world.leases, token).await.unwrap();
        cleanup.failed("no answer", by_pod).await.unwrap();
        // Far enough away not to come due by itself.
        let later = doc! { "$set": { "revocation.nextTryAt": { "$add": ["$$NOW", 600_000] } } };
        world.set(token, later).await;
    };
    let waits = revoked(&world, "hard", Some("pod-a"), "ada").await;
    let by_itself = revoked(&world, "hard", Some("pod-a"), "bob").await;
    let others = revoked(&world, "soft", Some("pod-b"), "cid").await;
    let claimed = revoked(&world, "soft", Some("pod-a"), "dan").await;
    fail(&waits, true).await;
    fail(&by_itself, false).await;
    fail(&others, true).await;
    fail(&claimed, true).await;
    assert!(cleanups.retry(&claimed).await.unwrap());
    let worker = claim(&world.leases, &claimed).await.unwrap();
    let pods = [pod_id("pod-a"), pod_id("pod-b")];
    assert_eq!(cleanups.waited_for().await.unwrap(), pods);
    let before = world.holder(&claimed).await;
    cleanups.stop_waiting_for(&pod_id("pod-a")).await.unwrap();
    assert_eq!(world.holder(&claimed).await, before, "it is under way");
    let due = cleanups.due(&types(), 9).await.unwrap();
    let due: Vec<_> = due.into_iter().map(|due| due.token).collect();
    assert_eq!(due, [waits]);
    assert!(worker.finish().await.unwrap());
    assert_eq!(cleanups.waited_for().await.unwrap(), [pod_id("pod-b")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_could_not_be_asked_to_do_it_may_take_before_it_is_due_and_once() {
    let world = world().await;
    let cleanups = world.leases.cleanups();
    let (own, other) = (pod_id("pod-a"), pod_id("pod-b"));
    let token = exclusive(&world).await;
    let left_to = async |pod| {
        let left = cleanups.left_to(pod, &types(), 9).await.unwrap();
        left.into_iter().map(|due| due.token).collect::<Vec<_>>()
    };
    assert_eq!(left_to(&own).await, []);
    let asking = claim(&world.leases, &token).await.unwrap();
    let next = asking.leave_to_pod("no answer").await.unwrap();
    assert!(next.after >= Duration::from_secs(5), "time for two looks");
    let later = doc! { "$set": { "revocation.nextTryAt": { "$add": ["$$NOW", 600_000] } } };
    world.set(&token, later.clone()).await;
    assert_eq!(left_to(&other).await, []);
    assert!(cleanups.claim(&token, &other).await.unwrap().is_none());
    assert_eq!(left_to(&own).await, std::slice::from_ref(&token));
    let claimed = cleanups.claim(&token, &own).await.unwrap().unwrap();
    assert_eq!(claimed.attempts, 2);
    assert_eq!(left_to(&own).await, [], "it is under way");
    assert!(cleanups.claim(&token, &own).await.unwrap().is_none());
    claimed.failed("its handler failed", false).await.unwrap();
    world.set(&token, later).await;
    assert_eq!(left_to(&own).await, [], "it was tried there");
    assert!(cleanups.claim(&token, &own).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_document_is_parked_with_its_error_and_the_others_go_on() {
    let faults = [
        doc! { "$unset": "tenantId" },
        doc! { "$set": { "userId": "" } },
        doc! { "$set": { "pod": "\u{7}" } },
        doc! { "$set": { "payload": "none" } },
        doc! { "$set": { "slotReturn": "SOMETIME" } },
        doc! { "$set": { "revocation.reason": "whim" } },
        doc! { "$set": { "revocation.at": "yesterday" } },
        doc! { "$set": { "revocation.nextTryAt": "soon", "lastSeenAt": Bson::Null } },
        doc! { "$set": { "revocation.nextTryAt": DateTime::MIN, "ttlSeconds": "-1" } },
    ];
    let world = world().await;
    for fault in faults {
        let broken = exclusive(&world).await;
        world.set(&broken, fault.clone()).await;
        let whole = revoked(&world, "hard", Some("pod-a"), "bob").await;
        let due = world.leases.cleanups().due(&types(), 9).await.unwrap();
        assert_eq!(due.len(), 2, "{fault}");
        assert!(claim(&world.leases, &broken).await.is_none(), "{fault}");
        let cleanup = claim(&world.leases, &whole).await.unwrap();
        assert!(cleanup.finish().await.unwrap());

        let due = world.leases.cleanups().due(&types(), 9).await.unwrap();
        assert_eq!(due, [], "{fault}");
        let parked = world.holder(&broken).await.unwrap();
        let parked = parked.get_document("revocation").unwrap();
        assert!(parked.get_bool("failed").unwrap(), "{parked}");
        assert!(!parked.get_str("lastError").unwrap().is_empty());
        assert!(!parked.contains_key("claim"));
        assert_eq!(world.leases.views().totals().await.unwrap().failed, 1);
        assert!(world.leases.cleanups().abandon(&broken).await.unwrap());
        assert_eq!(world.in_use().await["pdf|global|"], 0, "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_without_any_history_is_due() {
    let world = world().await;
    let token = exclusive(&world).await;
    world.set(&token, doc! { "$unset": "revocation" }).await;
    let cleanups = world.leases.cleanups();
    assert_eq!(cleanups.due(&types(), 9).await.unwrap().len(), 1);
    assert!(cleanups.claim(&token, &cleaner()).await.unwrap().is_none());
    assert_eq!(cleanups.due(&types(), 9).await.unwrap(), []);
}
