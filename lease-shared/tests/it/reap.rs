//! Idle leases are taken back, and only idle ones.

use std::time::Duration;

use lease_shared::{
    HolderState, LeaseRef, LeaseRequest, LeaseType, Phase, Release, RevocationReason, Tenancy,
};
use mongodb::bson::doc;

use crate::support::{World, busy, lease_type, nothing_left, request, token, waiting};

fn of_type(lease_type: LeaseType) -> LeaseRequest {
    LeaseRequest::builder()
        .lease_type(lease_type)
        .lease(LeaseRef::named("pdf").unwrap())
        .tenancy(Tenancy::new("acme", "thesis", "ada").unwrap())
        .wait(Duration::ZERO)
        .build()
}

async fn world() -> World {
    let world = World::new().await;
    world
        .define("pdf", "levels: { user: 1, global: 1 }\nttlSeconds: 60")
        .await;
    world
}

const TOO_LONG: Duration = Duration::from_secs(61);

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_takes_what_is_idle_and_tells_the_listener() {
    let world = world().await;
    let idle = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    idle.update_payload(doc! { "jobId": 7 }).await.unwrap();
    busy(world.leases.acquire(request("pdf", "bob")).await);
    world.age(&token(&idle), TOO_LONG).await;
    let next = world.leases.acquire(request("pdf", "bob")).await.unwrap();
    next.check().await.unwrap();
    idle.check().await.unwrap_err();
    let revocations = world.listener.revocations.lock().unwrap();
    let [revocation] = &revocations[..] else {
        panic!("{revocations:?}")
    };
    assert_eq!(
        (&revocation.token, revocation.reason),
        (&token(&idle), RevocationReason::Idle)
    );
    assert_eq!(revocation.payload, doc! { "jobId": 7 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_used_after_it_was_listed_stays_held() {
    let world = world().await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    world.age(&token(&lease), TOO_LONG).await;
    // The sweep has listed it and is about to revoke it when it is used.
    let gate = world
        .leases
        .failpoints()
        .pause("revoke holder", Phase::Before);
    let leases = world.leases.clone();
    let sweep = tokio::spawn(async move { leases.sweep().await });
    gate.reached().await;
    lease.check().await.unwrap();
    gate.open();
    assert_eq!(sweep.await.unwrap().idle, 0);
    assert_eq!(world.state(&token(&lease)).await.unwrap(), "HELD");
    assert_eq!(world.in_use().await["pdf|global|"], 1);
    assert!(world.listener.revocations.lock().unwrap().is_empty());
    lease.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_comes_back_at_once_or_after_the_clean_up_as_its_type_says() {
    for (name, in_use) in [("soft", 0), ("hard", 1)] {
        let world = world().await;
        let lease = world
            .leases
            .acquire(of_type(lease_type(name)))
            .await
            .unwrap();
        world.age(&token(&lease), TOO_LONG).await;
        assert_eq!(world.leases.sweep().await.idle, 1);
        assert_eq!(world.state(&token(&lease)).await.unwrap(), "REVOKING");
        assert_eq!(world.in_use().await["pdf|global|"], in_use, "{name}");
        // Reconcile agrees, and a second sweep has nothing to do.
        world.leases.reconciler().reconcile(false).await.unwrap();
        assert_eq!(world.leases.sweep().await, nothing_left());
        assert_eq!(
            world
                .in_use()
                .await
                .get("pdf|global|")
                .copied()
                .unwrap_or(0),
            in_use,
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_command_leaves_nothing_behind() {
    let world = world().await;
    let lease = world
        .leases
        .acquire(of_type(LeaseType::command()))
        .await
        .unwrap();
    world.age(&token(&lease), TOO_LONG).await;
    assert_eq!(world.leases.sweep().await.idle, 1);
    assert_eq!(world.all_holders().await.len(), 0);
    assert_eq!(world.in_use().await["pdf|global|"], 0);
    assert!(world.listener.revocations.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_being_revoked_keeps_its_slot_until_its_wrapper_or_its_time_says() {
    for confirmed in [true, false] {
        let world = world().await;
        let lease = world
            .leases
            .acquire(of_type(LeaseType::command()))
            .await
            .unwrap();
        let revoked = doc! { "$set": { "state": "REVOKING", "revocation": { "reason": "revoke", "at": "$$NOW", "attempts": 0, "nextTryAt": "$$NOW" } } };
        world
            .holders()
            .update_one(doc! {}, vec![revoked])
            .await
            .unwrap();
        lease.check().await.unwrap_err();
        busy(world.leases.acquire(request("pdf", "ada")).await);
        assert_eq!(world.leases.sweep().await.finished, 0);
        if confirmed {
            assert_eq!(lease.release().await.unwrap(), Release::AlreadyReleased);
            world.leases.close().await;
        } else {
            world.age(&token(&lease), TOO_LONG).await;
            assert_eq!(world.leases.sweep().await.finished, 1);
        }
        assert_eq!(world.all_holders().await.len(), 0);
        world.leases.acquire(request("pdf", "ada")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_never_finished_is_removed_after_30_s_or_its_ttl() {
    for (ttl, stale_after) in [(60, 30), (5, 5)] {
        let world = World::new().await;
        world
            .define("pdf", &format!("levels: {{ user: 1 }}\nttlSeconds: {ttl}"))
            .await;
        let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
        world
            .holders()
            .update_one(doc! {}, doc! { "$set": { "state": "PENDING" } })
            .await
            .unwrap();
        world
            .age(&token(&lease), Duration::from_secs(stale_after - 2))
            .await;
        assert_eq!(world.leases.sweep().await.stale, 0);
        world.age(&token(&lease), Duration::from_secs(3)).await;
        assert_eq!(world.leases.sweep().await.stale, 1);
        assert_eq!(
            (
                world.all_holders().await.len(),
                world.in_use().await["pdf|user|acme/ada"]
            ),
            (0, 0)
        );
        assert!(
            world.listener.revocations.lock().unwrap().is_empty(),
            "there is nothing to clean up"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_served_when_the_holder_expires_though_nobody_sweeps() {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 1 }\nttlSeconds: 1")
        .await;
    let _idle = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let second = world.another_service().await;
    let next = second
        .acquire(waiting("pdf", "bob", Duration::from_secs(30)))
        .await
        .unwrap();
    next.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_to_live_of_68_years_is_cut_to_the_longest_a_definition_may_say() {
    let world = world().await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    world
        .holders()
        .update_one(
            doc! {},
            doc! { "$set": { "ttlSeconds": i64::from(i32::MAX) } },
        )
        .await
        .unwrap();
    let shown = world
        .leases
        .views()
        .holder(&token(&lease))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (shown.ttl_seconds, shown.state),
        (604_800, HolderState::Held)
    );
    world
        .age(&token(&lease), Duration::from_secs(604_799))
        .await;
    assert_eq!(world.leases.sweep().await.idle, 0);
    world.age(&token(&lease), Duration::from_secs(2)).await;
    assert_eq!(world.leases.sweep().await.idle, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_document_is_neither_taken_nor_in_the_way() {
    let world = world().await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let corrupt = [
        doc! { "_id": "0".repeat(32), "state": "HELD", "ttlSeconds": 1 },
        doc! { "_id": "1".repeat(32), "state": "HELD", "ttlSeconds": "soon", "lastSeenAt": mongodb::bson::DateTime::MIN },
        doc! { "_id": "2".repeat(32), "state": "HELD", "ttlSeconds": 60, "lastSeenAt": "yesterday" },
    ];
    world.holders().insert_many(corrupt).await.unwrap();
    world.age(&token(&lease), TOO_LONG).await;
    assert_eq!(world.leases.sweep().await.idle, 1);
    assert_eq!(world.all_holders().await.len(), 4);
    assert_eq!(
        world
            .leases
            .views()
            .holders(&Default::default())
            .await
            .unwrap()
            .unreadable
            .len(),
        3
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_examines_what_is_expired_and_not_what_is_there() {
    let world = world().await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let template = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    let live = (0..2000).map(|n| {
        let mut holder = template.clone();
        holder.insert("_id", format!("{n:032x}"));
        holder.insert("ttlSeconds", 60 + i64::from(n % 3));
        holder
    });
    world.holders().insert_many(live).await.unwrap();
    world.age(&token(&lease), TOO_LONG).await;
    let db = world.mongo.database();
    db.run_command(doc! { "profile": 2 }).await.unwrap();
    assert_eq!(world.leases.sweep().await.idle, 1);
    db.run_command(doc! { "profile": 0 }).await.unwrap();
    let ops = db.collection::<mongodb::bson::Document>("system.profile");
    let seen =
        ops.find(doc! { "ns": format!("{}.{}", world.mongo.name(), crate::support::HOLDERS) });
    let ops: Vec<_> = futures_util::TryStreamExt::try_collect(seen.await.unwrap())
        .await
        .unwrap();
    assert!(
        ops.len() >= 4,
        "distinct, find, revoke were profiled: {}",
        ops.len()
    );
    for op in ops {
        let examined = |field| op.get_i32(field).unwrap_or(0);
        assert!(
            examined("keysExamined") < 20 && examined("docsExamined") < 20,
            "{op}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_leases_that_wait_for_a_handler_hide_no_command_from_the_sweep() {
    let world = world().await;
    let lease = world
        .leases
        .acquire(of_type(LeaseType::command()))
        .await
        .unwrap();
    let revoked = doc! { "$set": { "state": "REVOKING", "revocation": { "reason": "idle", "at": "$$NOW", "attempts": 0, "nextTryAt": "$$NOW" } } };
    world
        .holders()
        .update_one(doc! {}, vec![revoked])
        .await
        .unwrap();
    world.age(&token(&lease), TOO_LONG).await;
    // More than a sweep lists at a time, and all of them older.
    let template = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    let waiting = (0..300).map(|n| {
        let mut holder = template.clone();
        holder.extend(doc! { "_id": format!("{n:032x}"), "type": "soft", "lastSeenAt": mongodb::bson::DateTime::from_millis(n) });
        holder
    });
    world.holders().insert_many(waiting).await.unwrap();
    assert_eq!(world.leases.sweep().await.finished, 1);
    assert_eq!(world.state(&token(&lease)).await, None);
    assert_eq!(world.in_use().await["pdf|global|"], 0);
    assert_eq!(world.all_holders().await.len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_sweeper_sees_that_time_has_passed() {
    let world = World::new().await;
    let body = "levels: { global: 1 }\nttlSeconds: 5";
    world.define("pdf", body).await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    lease.check().await.unwrap();
    let lease = lease.into_token().unwrap();
    assert_eq!(world.leases.sweep().await, nothing_left());
    test_mongo::eventually("it expires", Duration::from_secs(20), async || {
        Ok(world.leases.sweep().await.idle == 1)
    })
    .await
    .unwrap();
    assert_eq!(world.state(&lease).await.unwrap(), "REVOKING");
}
