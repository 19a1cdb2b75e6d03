//! What each operation costs, counted by the driver's own monitoring.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_shared::{Decision, Lease, LeaseRef, LeaseRequest, Tenancy};
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use test_mongo::{TestMongo, eventually};

use crate::cleanup::claim;
use crate::support::{World, busy, lease_type, request, request_by, request_of, waiting};

#[derive(Clone, Default)]
struct Commands(Arc<Mutex<Vec<String>>>);

impl Commands {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A world whose service's commands are counted. Its definitions are cached before the counting begins.
async fn counted(body: &str) -> (World, Commands) {
    let commands = Commands::default();
    let heard = commands.clone();
    let handler = EventHandler::callback(move |event| {
        if let CommandEvent::Started(started) = event {
            heard.0.lock().unwrap().push(started.command_name);
        }
    });
    let mongo = TestMongo::new().await.unwrap();
    let world = World::on(mongo, |options| {
        options.command_event_handler = Some(handler)
    })
    .await;
    world.define("pdf", body).await;
    let elsewhere = Tenancy::new("warm", "thesis", "up").unwrap();
    let same_project = Tenancy::new("acme", "thesis", "warm-up").unwrap();
    for tenancy in [elsewhere, same_project] {
        world
            .leases
            .acquire(request_of("pdf", &tenancy, Duration::ZERO))
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    world.leases.close().await;
    world.leases.reconciler().reconcile(false).await.unwrap();
    commands.take();
    (world, commands)
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_takes_3_release_2_and_check_1_with_four_levels() {
    let (world, commands) = counted("levels: { user: 1, project: 2, tenant: 3, global: 4 }").await;
    assert_eq!(
        world.in_use().await.len(),
        0,
        "the first use of each counter is counted too"
    );
    commands.take();
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    assert_eq!(commands.take(), ["update", "update", "update"]);
    lease.check().await.unwrap();
    assert_eq!(commands.take(), ["update"]);
    lease.release().await.unwrap();
    world.leases.close().await;
    assert_eq!(commands.take(), ["findAndModify", "update"]);
    assert_eq!(world.in_use().await.values().sum::<usize>(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_at_once_takes_at_most_6() {
    let (world, commands) = counted("levels: { user: 9, project: 9, tenant: 9, global: 1 }").await;
    let _held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    commands.take();
    busy(world.leases.acquire(request("pdf", "bob")).await);
    let sent = commands.take();
    assert!(sent.len() <= 6, "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_poll_is_one_find() {
    let (world, commands) =
        counted("levels: { user: 9, project: 9, tenant: 9, global: 1 }\nttlSeconds: 600").await;
    let held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    commands.take();
    let leases = world.leases.clone();
    let waiter = tokio::spawn(async move {
        leases
            .acquire(waiting("pdf", "bob", Duration::from_secs(60)))
            .await
    });
    let polls = || {
        commands
            .0
            .lock()
            .unwrap()
            .iter()
            .skip(6)
            .cloned()
            .collect::<Vec<_>>()
    };
    eventually("ten polls", Duration::from_secs(30), async || {
        Ok(polls().len() >= 10)
    })
    .await
    .unwrap();
    // The first relief is due after 10 s at the earliest; ten polls take less.
    assert!(
        polls().iter().all(|command| command == "find"),
        "{:?}",
        polls()
    );
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_noop_lease_causes_no_command_at_all() {
    let (world, commands) = counted("ttlSeconds: 5").await;
    let use_it = async |lease: Lease| {
        assert!(lease.is_noop());
        for _ in 0..1000 {
            lease.check().await.unwrap();
        }
        lease
            .update_payload(mongodb::bson::doc! { "jobId": 1 })
            .await
            .unwrap();
        lease.release().await.unwrap();
    };
    use_it(world.leases.acquire(request("pdf", "ada")).await.unwrap()).await;
    let none = LeaseRequest::builder()
        .lease_type(lease_type("soft"))
        .lease(LeaseRef::None)
        .tenancy(Tenancy::new("acme", "thesis", "ada").unwrap())
        .build();
    use_it(world.leases.acquire(none).await.unwrap()).await;
    assert_eq!(commands.take(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn revoke_takes_at_most_2_claim_1_and_finish_2() {
    let (world, commands) = counted("levels: { user: 9, project: 9, tenant: 9, global: 9 }").await;
    for (kind, revoke) in [
        ("soft", &["findAndModify", "update"][..]),
        ("hard", &["findAndModify"]),
    ] {
        let lease = world
            .leases
            .acquire(request_by(kind, Some("pod-a"), "ada"))
            .await;
        let token = lease.unwrap().into_token().unwrap();
        commands.take();
        world
            .leases
            .revoke(&token, &Decision::default())
            .await
            .unwrap();
        assert_eq!(commands.take(), revoke, "{kind}");
        let cleanup = claim(&world.leases, &token).await.unwrap();
        assert_eq!(commands.take(), ["findAndModify"]);
        assert!(cleanup.finish().await.unwrap());
        assert_eq!(commands.take(), ["findAndModify", "update"]);
    }
    let lease = world
        .leases
        .acquire(request_by("hard", Some("pod-a"), "ada"))
        .await;
    let token = lease.unwrap().into_token().unwrap();
    commands.take();
    let forced = world
        .leases
        .force_revoke(&token, &Decision::default())
        .await;
    assert!(forced.unwrap().is_some());
    assert_eq!(commands.take(), ["findAndModify", "update"]);
    let mut cleanup = claim(&world.leases, &token).await.unwrap();
    commands.take();
    assert!(cleanup.renew().await.unwrap());
    assert_eq!(commands.take(), ["update"]);
    cleanup.failed("stuck", false).await.unwrap();
    assert_eq!(commands.take(), ["update"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_of_what_adds_up_takes_3_for_each_50_counters() {
    let (world, commands) = counted("levels: { user: 9 }").await;
    let mut leases = Vec::new();
    for n in 1..=101 {
        let lease = world
            .leases
            .acquire(request("pdf", &format!("user-{n}")))
            .await;
        leases.push(lease.unwrap());
        if ![1, 50, 51, 100, 101].contains(&n) {
            continue;
        }
        commands.take();
        let report = world.leases.reconciler().reconcile(false).await.unwrap();
        assert_eq!((report.counters, report.drift.len()), (n, 0));
        let mut expected = Vec::new();
        for _ in 0..n.div_ceil(50) {
            expected.extend(["find", "find", "find"]);
        }
        // No further page, and the counters that leases name.
        expected.extend(["find", "aggregate"]);
        assert_eq!(commands.take(), expected, "{n} counters");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_removes_empty_counters_page_by_page() {
    let (world, commands) = counted("levels: { user: 9 }").await;
    for n in 1..=101 {
        let lease = world
            .leases
            .acquire(request("pdf", &format!("user-{n}")))
            .await;
        lease.unwrap().release().await.unwrap();
    }
    world.leases.close().await;
    commands.take();
    let report = world.leases.reconciler().reconcile(false).await.unwrap();
    assert_eq!((report.counters, report.removed.len()), (101, 101));
    let sent = commands.take();
    let deletes = sent.iter().filter(|name| *name == "delete").count();
    assert_eq!(deletes, 3, "{sent:?}");
    assert_eq!(world.all_counters().await.len(), 0);
}
