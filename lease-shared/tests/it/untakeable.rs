//! Leases that a sweep cannot take: whatever is wrong with them, they keep it from no other.

use std::time::{Duration, Instant};

use lease_shared::{LeaseToken, Phase};
use mongodb::bson::{Bson, doc};
use test_mongo::FailCommand;

use crate::stage::Stage;
use crate::support::{HOLDERS, World, pod_id, request_by};

/// More than a sweep lists at a time.
const MANY: usize = 250;
const HOUR: Duration = Duration::from_secs(3600);

/// A lease of `who` in pod `pod-a` that has not been used for `idle`.
async fn idle(world: &World, who: &str, idle: Duration) -> LeaseToken {
    let lease = world.leases.acquire(request_by("soft", Some("pod-a"), who));
    let token = lease.await.unwrap().into_token().unwrap();
    world.age(&token, idle).await;
    token
}

async fn world() -> World {
    let world = World::new().await;
    let body = "levels: { global: 9 }\nttlSeconds: 600";
    world.define("pdf", body).await;
    world
}

/// Copies of this lease which are listed before it and which the server lets nobody revoke.
async fn that_nobody_can_take(world: &World, token: &LeaseToken) {
    let template = world.holder(token).await.unwrap();
    let copies = (0..MANY).map(|n| {
        let mut copy = template.clone();
        copy.insert("_id", format!("{n:032x}"));
        copy.insert("userId", "stuck");
        copy
    });
    world.holders().insert_many(copies).await.unwrap();
    let older = doc! { "$set": { "lastSeenAt": { "$subtract": ["$lastSeenAt", 3_600_000_i64] } } };
    let stuck = doc! { "userId": "stuck" };
    let holders = world.holders();
    holders.update_many(stuck, vec![older]).await.unwrap();
    let rule = doc! { "$or": [{ "state": "HELD" }, { "userId": { "$ne": "stuck" } }] };
    let rule = doc! { "collMod": HOLDERS, "validator": rule };
    world.mongo.database().run_command(rule).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_no_sweep_can_take_hide_none_that_come_after_them() {
    let world = world().await;
    let good = idle(&world, "ada", HOUR).await;
    that_nobody_can_take(&world, &good).await;
    let swept = world.leases.sweep().await;
    assert_eq!((swept.idle, swept.failed.len()), (1, MANY));
    assert!(swept.complete, "all of them were looked at");
    assert_eq!(world.state(&good).await.unwrap(), "REVOKING");
}

#[tokio::test(flavor = "multi_thread")]
async fn those_of_a_dead_pod_that_cannot_be_taken_hide_none_that_come_after_them() {
    let world = world().await;
    let good = idle(&world, "ada", Duration::ZERO).await;
    that_nobody_can_take(&world, &good).await;
    let mut failed = Vec::new();
    let dead = || async { Ok::<_, lease_shared::StoreError>(true) };
    let revoked = world
        .leases
        .revoke_all_of_dead_pod(&pod_id("pod-a"), dead, &mut failed)
        .await;
    let revoked = revoked.unwrap();
    assert_eq!((revoked.count, failed.len()), (1, MANY));
    assert!(revoked.complete);
    assert_eq!(world.state(&good).await.unwrap(), "REVOKING");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_over_one_lease_is_told_and_the_others_are_taken() {
    let world = world().await;
    for who in ["ada", "bob", "eve"] {
        idle(&world, who, HOUR).await;
    }
    let failpoints = world.leases.failpoints();
    failpoints.panic("revoke holder", Phase::Before);
    let swept = world.leases.sweep().await;
    assert_eq!((swept.idle, swept.failed.len()), (2, 1), "{swept:?}");
    assert!(swept.failed[0].contains("panicked over lease"), "{swept:?}");
    assert_eq!(world.leases.sweep().await.idle, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_takes_long_is_left_and_the_others_are_taken() {
    let stage = Stage::new(9).await;
    let victim = stage.victim().await;
    for who in ["ada", "bob", "eve"] {
        idle(&stage.world, who, HOUR).await;
    }
    let slow = FailCommand::on(&["findAndModify"]).times(1);
    let _slow = stage.fail(slow.block(Duration::from_secs(10))).await;
    let began = Instant::now();
    let swept = victim.sweep().await;
    assert!(began.elapsed() < Duration::from_secs(9), "{swept:?}");
    assert_eq!((swept.idle, swept.failed.len()), (2, 1), "{swept:?}");
    stage.heal().await;
    assert_eq!(stage.world.leases.sweep().await.idle, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_that_could_not_list_says_so() {
    let stage = Stage::new(9).await;
    let victim = stage.victim().await;
    assert!(victim.sweep().await.complete);
    let denied = FailCommand::on(&["distinct"]).error_code(13);
    let denied = stage.fail(denied).await;
    let swept = victim.sweep().await;
    assert!(!swept.complete && !swept.failed.is_empty(), "{swept:?}");
    denied.off().await.unwrap();
    assert!(victim.sweep().await.complete);
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_that_could_not_write_says_so() {
    let stage = Stage::new(9).await;
    let victim = stage.victim().await;
    let template = idle(&stage.world, "ada", HOUR).await;
    let template = stage.world.holder(&template).await.unwrap();
    let copies = (0..MANY).map(|n| {
        let mut copy = template.clone();
        copy.insert("_id", format!("{n:032x}"));
        copy
    });
    stage.world.holders().insert_many(copies).await.unwrap();
    let away = FailCommand::on(&["findAndModify"]).error_code(11602);
    let away = stage.fail(away).await;
    let swept = victim.sweep().await;
    assert!(!swept.complete && swept.idle == 0, "{swept:?}");
    assert!(swept.failed.len() < MANY, "it does not go on for ever");
    away.off().await.unwrap();
    assert_eq!(victim.sweep().await.idle, MANY + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_to_live_that_is_not_a_number_has_passed_and_a_list_of_them_is_none() {
    let world = world().await;
    let odd = idle(&world, "ada", HOUR).await;
    let list = idle(&world, "bob", HOUR).await;
    let change = |ttl: Bson| doc! { "$set": { "ttlSeconds": ttl } };
    world.set(&odd, change(f64::NAN.into())).await;
    world.set(&list, change(vec![600].into())).await;
    world.leases.sweep().await;
    assert_eq!(world.state(&odd).await.unwrap(), "REVOKING");
    assert_eq!(world.state(&list).await.unwrap(), "HELD");
    let shown = world.leases.reconciler().reconcile(true).await.unwrap();
    let shown = shown
        .drift
        .iter()
        .any(|drift| drift.problem.contains(list.as_str()));
    assert!(shown, "it is broken");
}

#[tokio::test(flavor = "multi_thread")]
async fn counter_that_is_none_stops_no_reconcile_although_a_lease_books_it() {
    let world = world().await;
    let lease = idle(&world, "ada", Duration::ZERO).await;
    let orphan = idle(&world, "bob", Duration::ZERO).await;
    let its = doc! { "_id": orphan.as_str() };
    world.holders().delete_one(its).await.unwrap();
    let broken = doc! { "_id": "aaa|global|", "tokens": [5] };
    world.counters().insert_one(broken).await.unwrap();
    let too = doc! { "$push": { "levels": "aaa|global|" } };
    let its = doc! { "_id": lease.as_str() };
    world.holders().update_one(its, too).await.unwrap();
    let report = world.leases.reconciler().reconcile(false).await.unwrap();
    assert_eq!(report.orphans.len(), 1, "{report:?}");
    let [drift] = report.drift.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!(drift.counter, "aaa|global|");
}
