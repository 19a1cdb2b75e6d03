//! Reconcile frees what nobody holds and shows what else is wrong.

use lease_shared::{Drift, Phase};
use mongodb::bson::doc;

use crate::support::{World, busy, reached, request, token};

async fn world() -> World {
    let world = World::new().await;
    world
        .define("pdf", "levels: { user: 1, global: 2 }\nttlSeconds: 60")
        .await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_a_holder_is_freed_and_an_empty_counter_removed() {
    let world = world().await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let other = world.leases.acquire(request("pdf", "bob")).await.unwrap();
    world
        .holders()
        .delete_one(doc! { "_id": token(&lease).as_str() })
        .await
        .unwrap();
    let dry = world.leases.reconciler().reconcile(true).await.unwrap();
    assert_eq!(
        (dry.orphans.len(), dry.removed.as_slice()),
        (2, &["pdf|user|acme/ada".to_owned()][..])
    );
    assert_eq!(
        world.in_use().await["pdf|global|"],
        2,
        "a dry run changes nothing"
    );

    let report = world.leases.reconciler().reconcile(false).await.unwrap();
    assert_eq!(
        (&report.orphans, &report.removed, report.drift.len()),
        (&dry.orphans, &dry.removed, 0)
    );
    world.assert_counters_equal_holders().await;
    assert_eq!(world.in_use().await.len(), 2);
    other.check().await.unwrap();
    let again = world.leases.reconciler().reconcile(false).await.unwrap();
    assert!(again.orphans.is_empty() && again.removed.is_empty());
    world.leases.acquire(request("pdf", "ada")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_keeps_no_acquirer_out_though_nobody_reconciles() {
    let world = world().await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    world
        .holders()
        .delete_one(doc! { "_id": token(&lease).as_str() })
        .await
        .unwrap();
    world.leases.acquire(request("pdf", "ada")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_comes_in_while_reconcile_looks_is_not_freed() {
    let world = world().await;
    let _first = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    // Between the reading of the tokens and of their holders, everything may happen.
    let reconciler = world.another_service().await;
    let gate = reconciler
        .failpoints()
        .pause("look up holders", Phase::Before);
    let reconcile = tokio::spawn(async move { reconciler.reconciler().reconcile(false).await });
    gate.reached().await;
    let second = world.leases.acquire(request("pdf", "bob")).await.unwrap();
    gate.open();
    assert_eq!(reconcile.await.unwrap().unwrap().orphans, []);
    second.check().await.unwrap();
    assert_eq!(world.in_use().await["pdf|global|"], 2);
    busy(world.leases.acquire(request("pdf", "eve")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_is_booked_before_its_removal_stays_and_is_not_called_removed() {
    let world = world().await;
    for who in ["ada", "bob"] {
        let lease = world.leases.acquire(request("pdf", who)).await.unwrap();
        lease.release().await.unwrap();
    }
    world.leases.close().await;
    let reconciler = world.another_service().await;
    let gate = reconciler
        .failpoints()
        .pause("remove empty counters", Phase::Before);
    let reconcile = tokio::spawn(async move { reconciler.reconciler().reconcile(false).await });
    reached(&gate, "the removal").await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    gate.open();
    let report = reconcile.await.unwrap().unwrap();
    assert_eq!(report.removed, ["pdf|user|acme/bob"]);
    lease.check().await.unwrap();
    world.assert_counters_equal_holders().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_does_not_add_up_is_shown_and_left_alone() {
    let world = world().await;
    let _lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    world
        .counters()
        .update_one(doc! { "level": "global" }, doc! { "$set": { "count": 2 } })
        .await
        .unwrap();
    world
        .counters()
        .insert_one(doc! { "_id": "zzz", "note": "not a counter" })
        .await
        .unwrap();
    let report = world.leases.reconciler().reconcile(false).await.unwrap();
    let named: Vec<&str> = report
        .drift
        .iter()
        .map(|drift: &Drift| drift.counter.as_str())
        .collect();
    assert!(
        named[0] == "pdf|global|" && named[1].contains("zzz"),
        "{report:?}"
    );
    assert_eq!(world.all_counters().await.len(), 3);
    let counters = world
        .leases
        .views()
        .counters(&Default::default())
        .await
        .unwrap();
    assert_eq!((counters.entries.len(), counters.unreadable.len()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrected_slot_is_counted() {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    let world = world().await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    world
        .holders()
        .delete_one(doc! { "_id": token(&lease).as_str() })
        .await
        .unwrap();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let leases = world.another_service().await;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::spawn_blocking(move || {
        metrics::with_local_recorder(&recorder, || {
            runtime.block_on(leases.reconciler().reconcile(false))
        })
    })
    .await
    .unwrap()
    .unwrap();
    let corrected = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .find(|(key, ..)| key.key().name() == "vance.lease.reconcile");
    assert!(
        matches!(corrected, Some((.., DebugValue::Counter(2)))),
        "{corrected:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_holder_is_named_keeps_its_slot_and_can_be_released() {
    for (field, value) in [
        ("ttlSeconds", mongodb::bson::Bson::from("x")),
        ("lastSeenAt", mongodb::bson::Bson::Null),
        ("state", mongodb::bson::Bson::from("WAT")),
    ] {
        let world = world().await;
        let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
        let token = lease.into_token().unwrap();
        let broken = doc! { "$set": { field: value } };
        world.holders().update_one(doc! {}, broken).await.unwrap();
        let report = world.leases.reconciler().reconcile(false).await.unwrap();
        assert_eq!((report.orphans.len(), report.drift.len()), (0, 2));
        let problem = &report.drift[0].problem;
        assert!(
            problem.contains(token.as_str()) && problem.contains(field),
            "{problem}"
        );
        assert_eq!(world.in_use().await["pdf|user|acme/ada"], 1);
        if field != "state" {
            let released = world.leases.release_token(&token).await.unwrap();
            assert_eq!(released, lease_shared::Release::Released);
            world.leases.close().await;
            assert_eq!(world.in_use().await["pdf|user|acme/ada"], 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_has_lost_its_tokens_lets_nobody_in() {
    let world = world().await;
    let _lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let lost = doc! { "$unset": { "tokens": 1 } };
    world
        .counters()
        .update_one(doc! { "level": "user" }, lost)
        .await
        .unwrap();
    let error = world
        .leases
        .acquire(request("pdf", "ada"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "LEASE_UNAVAILABLE");
}
