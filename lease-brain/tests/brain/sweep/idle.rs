//! What is no longer used.

use std::time::Duration;

use mongodb::bson::doc;
use test_mongo::{FailCommand, Mongod, TestMongo, admin_command, eventually};

use crate::asking::{metric, sweep};
use crate::fleet::{Answer, Fleet, Plug, PodOptions, SOON, token};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn idle_lease_is_reaped_by_itself_and_its_handler_called_once() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let pod = fleet.pod("a").await;
    let idle = token(fleet.lease("ada", None, false, &plug.url("/idle")).await);
    let used = token(fleet.lease("bob", None, false, &plug.url("/used")).await);
    fleet.age_only(&idle, HOUR).await;
    eventually("it is reaped", SOON, async || {
        Ok(fleet.holder(&idle).await.is_none() && fleet.booked().await == 1)
    })
    .await
    .unwrap();
    assert_eq!(plug.calls("/idle").begun, 1);
    assert_eq!(plug.calls("/used").begun, 0);
    assert_eq!(fleet.state(&used).await, "HELD");
    let reaped = metric(&pod, r#"vance_lease_reap{reason="idle"}"#).await;
    assert_eq!(reaped, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_that_never_finished_is_removed_without_a_handler() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let stale = token(fleet.lease("ada", None, false, &plug.url("/a")).await);
    let fresh = token(fleet.lease("bob", None, false, &plug.url("/b")).await);
    let pending = doc! { "$set": { "state": "PENDING" } };
    fleet.holders().update_many(doc! {}, pending).await.unwrap();
    fleet.age_only(&stale, Duration::from_secs(31)).await;
    let _pod = fleet.pod("a").await;
    eventually("it is removed", SOON, async || {
        Ok(fleet.holder(&stale).await.is_none() && fleet.booked().await == 1)
    })
    .await
    .unwrap();
    assert_eq!(fleet.state(&fresh).await, "PENDING");
    assert_eq!(plug.all().begun, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_number_of_pods_sweeping_at_once_take_each_lease_once() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let quick = || PodOptions::with(&["--reap-interval=100ms"]);
    let (a, b, c) = tokio::join!(
        fleet.pod_with("a", quick()),
        fleet.pod_with("b", quick()),
        fleet.pod_with("c", quick())
    );
    const LEASES: usize = 40;
    for user in 0..LEASES {
        let user = format!("user-{user}");
        token(
            fleet
                .lease(&user, None, false, &plug.url(&format!("/{user}")))
                .await,
        );
    }
    fleet.age(HOUR).await;
    eventually("all are gone", SOON, async || Ok(fleet.booked().await == 0))
        .await
        .unwrap();
    let mut reaped = 0.0;
    for pod in [&a, &b, &c] {
        let here = metric(pod, r#"vance_lease_reap{reason="idle"}"#).await;
        reaped += here.unwrap_or_default();
    }
    assert_eq!(reaped, LEASES as f64);
    assert_eq!(plug.all().begun, LEASES);
    assert_eq!(plug.all().most_at_once, 1, "of one lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_one_pod_stands_still_another_sweeps() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let seldom = PodOptions::with(&["--reap-interval=1h"]);
    let interval = Duration::from_secs(3);
    let often = PodOptions::with(&["--reap-interval=3s"]);
    let (stalled, sweeping) = tokio::join!(fleet.pod_with("a", seldom), fleet.pod_with("b", often));
    stalled.pause();
    let idle = token(fleet.lease("ada", None, false, &plug.url("/a")).await);
    fleet.age(HOUR).await;
    let within = interval * 2;
    eventually("it is reaped within two intervals", within, async || {
        let held = doc! { "_id": idle.as_str(), "state": "HELD" };
        Ok(fleet.holders().find_one(held).await?.is_none())
    })
    .await
    .unwrap();
    // The sweep that reaped it may have to end first.
    eventually("its sweep is young", within, async || {
        let age = metric(&sweeping, "vance_lease_sweep_age_seconds").await;
        Ok(age.is_some_and(|age| age < within.as_secs_f64()))
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_idle_is_reaped_while_a_reconcile_takes_its_time() {
    let server = Mongod::start().await.unwrap();
    let fleet = Fleet::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let idle = token(fleet.lease("ada", None, false, "http://127.0.0.1:1").await);
    // Of which 50 are read at a time.
    let counters = (0..500).map(|n| {
        let key = format!("other|user|acme/user-{n:03}");
        doc! { "_id": key, "resource": "other", "level": "user", "count": 0, "tokens": [] }
    });
    fleet.counters().insert_many(counters).await.unwrap();
    let namespace = format!("{}.resource_lease_counters", fleet.mongo.name());
    let slow = FailCommand::on(&["find"]).block(Duration::from_secs(3));
    let slow = slow.with("namespace", namespace.as_str());
    let slow = slow.set(&server.uri()).await.unwrap();
    let pod = fleet.pod("a").await;
    let begun =
        doc! { "waitForFailPoint": "failCommand", "timesEntered": 1_i64, "maxTimeMS": 20_000 };
    admin_command(&server.uri(), begun).await.unwrap();
    fleet.age(HOUR).await;
    let within = Duration::from_secs(25);
    eventually("it is reaped before that has ended", within, async || {
        let held = doc! { "_id": idle.as_str(), "state": "HELD" };
        Ok(fleet.holders().find_one(held).await?.is_none())
    })
    .await
    .unwrap();
    assert_eq!(
        metric(&pod, "vance_lease_drift").await,
        None,
        "it is under way"
    );
    slow.off().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_that_nobody_holds_is_freed_and_what_differs_otherwise_is_shown() {
    let fleet = Fleet::new().await;
    let often = PodOptions::with(&["--reconcile-interval=300ms"]);
    let held = token(fleet.lease("ada", None, false, "http://127.0.0.1:1").await);
    let orphan = token(fleet.lease("bob", None, false, "http://127.0.0.1:1").await);
    let its = doc! { "_id": orphan.as_str() };
    fleet.holders().delete_one(its).await.unwrap();
    let wrong = doc! { "$inc": { "count": 1 } };
    let ada = doc! { "userId": "ada" };
    fleet.counters().update_one(ada, wrong).await.unwrap();
    let pod = fleet.pod_with("a", often).await;
    eventually("the orphan is freed", SOON, async || {
        Ok(fleet.booked().await == 1)
    })
    .await
    .unwrap();
    // The token goes first, and is counted after that.
    eventually("it is counted", SOON, async || {
        let corrected = metric(&pod, r#"vance_lease_reconcile{outcome="corrected"}"#).await;
        Ok(corrected == Some(1.0))
    })
    .await
    .unwrap();
    let said = "count is 2 but 1 tokens are listed";
    eventually("the drift is told", SOON, async || {
        Ok(pod.log().contains(said))
    })
    .await
    .unwrap();
    assert_eq!(metric(&pod, "vance_lease_drift").await, Some(1.0));
    let report = sweep(&pod).await;
    assert_eq!(report.drift.len(), 1, "{report:?}");
    assert!(report.drift[0].ends_with(said), "{report:?}");
    assert_eq!(fleet.state(&held).await, "HELD");
}
