//! Check-at-use and release: what a holder may believe.

use std::time::Duration;

use lease_shared::{CheckError, LeaseRef, LeaseRequest, Release, RevocationReason, Tenancy};
use mongodb::bson::{Document, doc};

use crate::support::{World, lease_type, request, token};

async fn one_lease() -> (World, lease_shared::Lease) {
    let world = World::new().await;
    world
        .define("pdf", "levels: { user: 1, global: 1 }\nttlSeconds: 60")
        .await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    (world, lease)
}

fn lost(result: Result<(), CheckError>) -> lease_shared::Lost {
    match result {
        Err(CheckError::Lost(lost)) => lost,
        other => panic!("expected lost, got {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_restarts_the_time_to_live() {
    let (world, lease) = one_lease().await;
    world.age(&token(&lease), Duration::from_secs(59)).await;
    lease.check().await.unwrap();
    world.age(&token(&lease), Duration::from_secs(59)).await;
    assert_eq!(world.leases.sweep().await.idle, 0);
    lease.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_says_why_since_when_and_how_long_it_may_be_unused() {
    let (world, lease) = one_lease().await;
    world.age(&token(&lease), Duration::from_secs(75)).await;
    assert_eq!(world.leases.sweep().await.idle, 1);
    let lost = lost(lease.check().await);
    assert_eq!(lost.reason, Some(RevocationReason::Idle));
    assert_eq!(lost.ttl, Some(Duration::from_secs(60)));
    assert!(lost.last_seen.unwrap() >= Duration::from_secs(75));
    let text = lost.to_string();
    assert!(
        text.contains("last seen 1m 15s") && text.contains("time to live 1m"),
        "{text}"
    );
    assert_eq!(lease.release().await.unwrap(), Release::AlreadyReleased);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_release_touches_nobody_elses_slot() {
    let (world, lease) = one_lease().await;
    world.age(&token(&lease), Duration::from_secs(75)).await;
    world.leases.sweep().await;
    let next = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Release::AlreadyReleased);
    world.leases.close().await;
    assert_eq!(world.in_use().await["pdf|global|"], 1);
    next.check().await.unwrap();
    assert_eq!(next.release().await.unwrap(), Release::Released);
    assert_eq!(next.release().await.unwrap(), Release::AlreadyReleased);
    assert_eq!(lost(next.check().await).reason, None);
    world.leases.close().await;
    assert_eq!(world.in_use().await["pdf|global|"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_checks_in_one_millisecond_are_both_real_writes() {
    let (world, lease) = one_lease().await;
    let held = token(&lease);
    let (a, b, c) = tokio::join!(lease.check(), lease.check(), lease.check());
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    let holder = world
        .holders()
        .find_one(doc! { "_id": held.as_str() })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(holder.get_i64("beats").unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_is_stored_as_it_is() {
    let (world, lease) = one_lease().await;
    let payload = doc! { "jobId": "$ttlSeconds", "at": "$$NOW", "deep": { "a": [1, "$x"] } };
    lease.update_payload(payload.clone()).await.unwrap();
    let holder: Document = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    assert_eq!(holder.get_document("payload").unwrap(), &payload);
    lease.release().await.unwrap();
    lost(lease.update_payload(payload).await);
    assert_eq!(
        world.all_holders().await.len(),
        0,
        "a payload brings no document back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_leaves_no_room_for_its_end_is_refused() {
    let (world, lease) = one_lease().await;
    let payload = |bytes: usize| doc! { "body": "x".repeat(bytes) };
    lease.update_payload(payload(255 * 1024)).await.unwrap();
    let refused = lease.update_payload(payload(256 * 1024)).await;
    let refused = lease_shared::in_full(&refused.unwrap_err());
    assert!(refused.contains("may have 262144"), "{refused}");
    lease.check().await.unwrap();
    let request = LeaseRequest::builder()
        .lease_type(lease_type("soft"))
        .lease(LeaseRef::named("pdf").unwrap())
        .tenancy(Tenancy::new("acme", "thesis", "bob").unwrap())
        .payload(payload(256 * 1024))
        .build();
    let refused = world.leases.acquire(request).await.unwrap_err();
    assert_eq!(refused.code(), "LEASE_INVALID");
    assert!(refused.to_string().contains("may have 262144"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_comes_late_is_counted() {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let world = World::new().await;
    world
        .define("pdf", "levels: { user: 1 }\nttlSeconds: 1")
        .await;
    // One thread for this, so that the recorder is the local one throughout.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let leases = world.another_service().await;
    tokio::task::spawn_blocking(move || {
        metrics::with_local_recorder(&recorder, || {
            runtime.block_on(async {
                let lease = leases.acquire(request("pdf", "ada")).await.unwrap();
                lease.check().await.unwrap();
                tokio::time::pause();
                tokio::time::advance(Duration::from_millis(501)).await;
                tokio::time::resume();
                lease.check().await.unwrap();
            });
        });
    })
    .await
    .unwrap();
    let late = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .find(|(key, ..)| key.key().name() == "vance.lease.check.late");
    assert!(
        matches!(late, Some((.., DebugValue::Counter(1)))),
        "{late:?}"
    );
}
