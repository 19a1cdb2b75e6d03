//! A process that is ending: who waits is told at once, nothing more is acquired, and what is held goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_shared::{
    AcquireError, Lease, LeaseRef, LeaseRequest, LeaseService, Phase, Release, Tenancy, Unavailable,
};
use tokio::sync::Notify;

use crate::support::{World, lease_type, reached, request};

/// Far less than any of the waits here.
const AT_ONCE: Duration = Duration::from_secs(5);

#[track_caller]
fn assert_ending(result: Result<Lease, AcquireError>) {
    match result {
        Err(AcquireError::Unavailable(Unavailable::Ending)) => {}
        other => panic!("{other:?}"),
    }
}

async fn waiter(
    leases: &LeaseService,
    who: &str,
) -> tokio::task::JoinHandle<Result<Lease, AcquireError>> {
    let told = Arc::new(Notify::new());
    let heard = Arc::clone(&told);
    let request = LeaseRequest::builder()
        .lease_type(lease_type("soft"))
        .lease(LeaseRef::named("pdf").unwrap())
        .tenancy(Tenancy::new("acme", "thesis", who).unwrap())
        .wait(Duration::from_secs(30))
        .on_busy(Arc::new(move |_| told.notify_one()))
        .build();
    let leases = leases.clone();
    let waiter = tokio::spawn(async move { leases.acquire(request).await });
    heard.notified().await;
    waiter
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_told_at_once_and_nothing_more_is_acquired() {
    let world = World::new().await;
    world
        .define("pdf", "levels: { user: 1, global: 1 }\nttlSeconds: 60")
        .await;
    let ending = world.another_service().await;
    let held = ending.acquire(request("pdf", "ada")).await.unwrap();
    let waiter = waiter(&ending, "bob").await;
    let before = Instant::now();
    ending.refuse_new();
    assert_ending(waiter.await.unwrap());
    assert!(before.elapsed() < AT_ONCE);

    let hits = ending.failpoints().hits();
    assert_ending(ending.acquire(request("pdf", "eve")).await);
    assert_ending(ending.acquire(request("no-such", "eve")).await);
    assert_eq!(ending.failpoints().hits(), hits, "without any traffic");
    held.check().await.unwrap();
    assert_eq!(held.release().await.unwrap(), Release::Released);
    ending.close().await;
    world.assert_counters_equal_holders().await;
    world.leases.acquire(request("pdf", "bob")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_under_way_gives_everything_back() {
    for step in ["open holder", "book counters", "mark held"] {
        for phase in [Phase::Before, Phase::After] {
            let world = World::new().await;
            world
                .define("pdf", "levels: { user: 1, global: 1 }\nttlSeconds: 60")
                .await;
            let ending = world.another_service().await;
            let gate = ending.failpoints().pause(step, phase);
            let acquiring = ending.clone();
            let acquire =
                tokio::spawn(async move { acquiring.acquire(request("pdf", "ada")).await });
            reached(&gate, step).await;
            ending.refuse_new();
            let told = tokio::time::timeout(AT_ONCE, acquire).await;
            assert_ending(told.expect("told at once").unwrap());
            gate.open();
            ending.close().await;
            assert_eq!(world.all_holders().await.len(), 0, "{step} {phase:?}");
            world.assert_counters_equal_holders().await;
        }
    }
}
