//! Waiters of one process: served, woken at once, in order, and without traffic while it is not their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lease_shared::{Level, Phase, Tenancy};
use mongodb::bson::doc;
use test_mongo::eventually;

use crate::support::{World, busy, reached, request, request_of, waiting};

#[tokio::test(flavor = "multi_thread")]
async fn all_64_waiters_of_one_user_are_served_within_their_wait_and_never_above_the_cap() {
    for cap in [1_usize, 3] {
        let world = World::new().await;
        world
            .define(
                "pdf",
                &format!("levels: {{ user: {cap}, project: 60, tenant: 60, global: 60 }}"),
            )
            .await;
        let inside = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (0..64)
            .map(|_| {
                let (leases, inside) = (world.leases.clone(), Arc::clone(&inside));
                tokio::spawn(async move {
                    let lease = leases
                        .acquire(waiting("pdf", "ada", Duration::from_secs(60)))
                        .await
                        .unwrap();
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < cap, "over the cap");
                    lease.check().await.unwrap();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    lease.release().await.unwrap();
                })
            })
            .collect();
        for waiter in waiters {
            waiter.await.unwrap();
        }
        world.leases.close().await;
        world.assert_counters_equal_holders().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_in_the_process_wakes_the_line_at_once() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 1 }").await;
    let mut held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    // Without the wake-up a hand-over waits for a poll, whose pause grows to a second: 20 hand-overs would take about
    // 10 s. With it they take 20 round trips. The bound is far from both.
    let mut waited = Duration::ZERO;
    for _ in 0..20 {
        let told = Arc::new(AtomicUsize::new(0));
        let heard = Arc::clone(&told);
        let next = lease_shared::LeaseRequest::builder()
            .lease_type(crate::support::lease_type("soft"))
            .lease(lease_shared::LeaseRef::named("pdf").unwrap())
            .tenancy(Tenancy::new("acme", "thesis", "bob").unwrap())
            .wait(Duration::from_secs(30))
            .on_busy(Arc::new(move |_: &lease_shared::Busy| {
                heard.fetch_add(1, Ordering::SeqCst);
            }))
            .build();
        let leases = world.leases.clone();
        let waiter = tokio::spawn(async move { leases.acquire(next).await });
        eventually("the waiter is told", Duration::from_secs(5), async || {
            Ok(told.load(Ordering::SeqCst) > 0)
        })
        .await
        .unwrap();
        let since = Instant::now();
        held.release().await.unwrap();
        held = waiter.await.unwrap().unwrap();
        waited += since.elapsed();
    }
    assert!(waited < Duration::from_secs(4), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_dropped_hands_on_its_turn() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 1 }").await;
    let held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let mut waiters: Vec<_> = (0..5)
        .map(|_| {
            let leases = world.leases.clone();
            tokio::spawn(async move {
                leases
                    .acquire(waiting("pdf", "bob", Duration::from_secs(30)))
                    .await
            })
        })
        .collect();
    let last = waiters.pop().unwrap();
    for waiter in waiters {
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
    }
    held.release().await.unwrap();
    last.await.unwrap().unwrap();
    world.leases.close().await;
    world.leases.reconciler().reconcile(false).await.unwrap();
    world.assert_counters_equal_holders().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_books_nothing_while_it_waits() {
    let world = World::new().await;
    world.define("pdf", "levels: { user: 1, project: 1 }").await;
    let _project = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let leases = world.leases.clone();
    let waiter = tokio::spawn(async move {
        leases
            .acquire(waiting("pdf", "bob", Duration::from_secs(20)))
            .await
    });
    eventually("bob has been refused", Duration::from_secs(5), async || {
        Ok(world.in_use().await.get("pdf|user|acme/bob") == Some(&0))
    })
    .await
    .unwrap();
    // Bob's own slot is free for bob in another project while he waits for this one.
    let elsewhere = Tenancy::new("acme", "other", "bob").unwrap();
    let free = world
        .leases
        .acquire(request_of("pdf", &elsewhere, Duration::ZERO))
        .await
        .unwrap();
    free.release().await.unwrap();
    waiter.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn not_waiting_is_one_try_even_when_others_wait() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 1 }").await;
    let _held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let leases = world.leases.clone();
    let waiter = tokio::spawn(async move {
        leases
            .acquire(waiting("pdf", "bob", Duration::from_secs(20)))
            .await
    });
    eventually("bob waits", Duration::from_secs(5), async || {
        Ok(world.in_use().await.len() == 1)
    })
    .await
    .unwrap();
    assert_eq!(
        busy(world.leases.acquire(request("pdf", "eve")).await).level,
        Level::Global
    );
    waiter.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_raised_during_a_wait_serves_the_waiter() {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 1 }\nttlSeconds: 600")
        .await;
    let _held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let leases = world.leases.clone();
    let waiter = tokio::spawn(async move {
        leases
            .acquire(waiting("pdf", "bob", Duration::from_secs(20)))
            .await
    });
    eventually("bob waits", Duration::from_secs(5), async || {
        Ok(world.in_use().await.len() == 1)
    })
    .await
    .unwrap();
    world
        .define("pdf", "levels: { global: 2 }\nttlSeconds: 600")
        .await;
    waiter.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_was_written_by_hand_keeps_no_waiter_out_for_longer_than_the_next_change() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 2 }").await;
    let first = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let more = doc! { "$inc": { "count": 5 } };
    world.counters().update_one(doc! {}, more).await.unwrap();
    let second = world.leases.acquire(request("pdf", "bob")).await.unwrap();
    let more = doc! { "$inc": { "count": 5 } };
    world.counters().update_one(doc! {}, more).await.unwrap();
    let leases = world.leases.clone();
    let gate = leases.failpoints().pause("poll counters", Phase::Before);
    let wait = Duration::from_secs(30);
    let waiter = tokio::spawn(async move { leases.acquire(waiting("pdf", "eve", wait)).await });
    reached(&gate, "its first poll").await;
    first.release().await.unwrap();
    gate.open();
    waiter.await.unwrap().unwrap();
    second.check().await.unwrap();
}
