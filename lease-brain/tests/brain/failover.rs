//! The store's primary goes, in every way in which one goes, while pods sweep and clean up.

use std::time::Duration;

use mongodb::Collection;
use mongodb::bson::{Document, doc};
use mongodb::options::{CollectionOptions, ReadConcern};
use test_mongo::{ReplicaSet, TestMongo, eventually};

use crate::asking::sweep;
use crate::fleet::{Answer, Fleet, Plug, PodOptions, SOON, token};

const LEASES: usize = 24;
/// Elections, and the minute after which a claim runs out whose pod could not write what came of it.
const CLEANED_UP: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread")]
async fn primary_that_steps_down_stands_still_or_is_killed_costs_no_revocation_and_runs_none_beside_another()
 {
    let mut set = ReplicaSet::start(3).await.unwrap();
    let fleet = Fleet::on(TestMongo::at(&set.uri()).await.unwrap()).await;
    let plug = Plug::new(Answer::Hang).await;
    let patient = || PodOptions::with(&["--heartbeat=1s", "--stale=20s"]);
    let (a, b, c) = tokio::join!(
        fleet.pod_with("a", patient()),
        fleet.pod_with("b", patient()),
        fleet.pod_with("c", patient())
    );
    let mut leases = Vec::new();
    for n in 0..LEASES {
        // A third each: in a pod and bound to it, in a pod, and in none.
        let pod = [Some(&a), Some(&b), None][n % 3];
        let (user, url) = (format!("user-{n}"), plug.url(&format!("/{n}")));
        let lease = fleet.lease(&user, pod, n % 3 == 0, &url).await;
        leases.push(token(lease));
    }
    let kept = token(
        fleet
            .lease("kept", Some(&c), true, &plug.url("/kept"))
            .await,
    );
    for lease in &leases {
        fleet.age_only(lease, Duration::from_secs(3600)).await;
    }
    eventually("handlers run", SOON, async || Ok(plug.all().begun > 0))
        .await
        .unwrap();
    set.step_down().await.unwrap();
    plug.answer(Answer::Status(200));
    let paused = set.primary().await.unwrap();
    set.pause(paused).unwrap();
    set.primary_other_than(paused).await.unwrap();
    set.resume(paused).unwrap();
    let killed = set.primary().await.unwrap();
    set.kill(killed).unwrap();
    // What a primary that is none any more says is not for good.
    let for_good = CollectionOptions::builder().read_concern(ReadConcern::majority());
    let holders: Collection<Document> = fleet
        .mongo
        .database()
        .collection_with_options(fleet.holders().name(), for_good.build());
    eventually("all are cleaned up", CLEANED_UP, async || {
        Ok(holders.count_documents(doc! {}).await? == 1)
    })
    .await
    .unwrap();
    // A pod that never heard whether its removal of a holder was written may have given no slot back.
    let swept = sweep(&a).await;
    assert_eq!(swept.failed, Vec::<String>::new());
    let booked = doc! { "tokens": { "$ne": [] } };
    let booked = fleet.counters().count_documents(booked).await.unwrap();
    assert_eq!(booked, 1, "of the lease that is kept");
    for n in 0..LEASES {
        let calls = plug.calls(&format!("/{n}"));
        assert!(calls.begun >= 1, "{n}: {calls:?}");
        assert_eq!(calls.most_at_once, 1, "{n}: {calls:?}");
    }
    assert_eq!(plug.calls("/kept").begun, 0, "its pod lived all the time");
    assert_eq!(fleet.state(&kept).await, "HELD");
    for pod in [&a, &b, &c] {
        assert_eq!(fleet.row(pod).await.get_str("status").unwrap(), "RUNNING");
    }
}
