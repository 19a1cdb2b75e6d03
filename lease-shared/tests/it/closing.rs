//! A process that is to end.

use std::time::{Duration, Instant};

use lease_shared::{AcquireError, Release};
use test_mongo::eventually;

use crate::support::{World, request, waiting};

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_in_a_process_that_ends_is_told_at_once_and_leaves_nothing_behind() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 1, user: 1 }").await;
    let held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let waiters: Vec<_> = ["bob", "eve", "joe"]
        .map(|who| {
            let leases = world.leases.clone();
            let wait = waiting("pdf", who, Duration::from_secs(600));
            tokio::spawn(async move { leases.acquire(wait).await })
        })
        .into();
    let asked = Duration::from_secs(20);
    eventually("the first has found it full", asked, async || {
        Ok(world.all_counters().await.len() >= 2)
    })
    .await
    .unwrap();
    let began = Instant::now();
    world.leases.refuse_new();
    for waiter in waiters {
        let told = waiter.await.unwrap();
        let told = told.expect_err("it is ending");
        assert!(matches!(told, AcquireError::Unavailable(_)), "{told:?}");
    }
    let newcomer = world.leases.acquire(request("pdf", "new")).await;
    assert_eq!(newcomer.unwrap_err().code(), "LEASE_UNAVAILABLE");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    // What is held is not touched.
    held.check().await.unwrap();
    assert_eq!(held.release().await.unwrap(), Release::Released);
    world.leases.close().await;
    assert!(world.all_holders().await.is_empty());
    assert!(world.in_use().await.values().all(|count| *count == 0));
}
