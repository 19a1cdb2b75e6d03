//! One node name, several pods.

use std::time::{Duration, Instant};

use lease_brain::cluster::{PodError, PodRegistry, PodSettings};
use mongodb::IndexModel;
use mongodb::bson::{DateTime, doc};
use mongodb::options::IndexOptions;
use test_mongo::{FailCommand, Mongod, TestMongo};

use super::stage::{Beating, SOON, Stage, entered, quick, settings};

#[tokio::test(flavor = "multi_thread")]
async fn node_name_of_a_living_pod_is_refused_with_what_to_do() {
    let stage = Stage::new().await;
    let living = stage.join(quick("a", 200, 3000)).await;
    living.running().await.unwrap();
    let beating = Beating::of(&living);
    let error = PodRegistry::join(&stage.database, settings("a"))
        .await
        .unwrap_err();
    assert!(matches!(error, PodError::NodeNameInUse(_)), "{error:?}");
    let pod = living.pod();
    let expected = format!(
        "node name \"a\" of cluster \"default\" is that of pod {pod} at http://a.example:7311, which is alive: stop that \
         one, or start this one under another --node-name"
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(stage.status(pod).await, "RUNNING");
    assert_eq!(stage.rows().count_documents(doc! {}).await.unwrap(), 1);

    let elsewhere = PodSettings {
        cluster_id: "other".to_owned(),
        ..settings("a")
    };
    stage.join(elsewhere).await;
    // Ended in good order, it leaves its name at once.
    living.stopped().await.unwrap();
    beating.end().await.unwrap();
    stage.join(settings("a")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_pod_comes_up_again_under_its_name() {
    let stage = Stage::new().await;
    let crashed = stage.join(quick("a", 200, 1000)).await;
    crashed.running().await.unwrap();
    // Its place is taken when its time has passed, and not before.
    let again = stage.join(settings("a")).await;
    assert_ne!(crashed.pod(), again.pod());
    let row = stage.row(crashed.pod()).await.unwrap();
    assert_eq!(row.get_str("status").unwrap(), "STOPPED");
    assert_eq!(row.get_str("stoppedBy").unwrap(), again.pod().as_str());
    let new = stage.row(again.pod()).await.unwrap();
    let silence = new.get_datetime("bootedAt").unwrap().timestamp_millis()
        - row
            .get_datetime("lastHeartbeatAt")
            .unwrap()
            .timestamp_millis();
    assert!(silence > 1000, "{silence}");
    assert_eq!(stage.status(again.pod()).await, "STARTING");
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_died_long_ago_is_not_waited_for() {
    let stage = Stage::new().await;
    let dead = stage.join(settings("a")).await;
    stage.age(dead.pod(), Duration::from_secs(31)).await;
    let started = Instant::now();
    let next = stage.join(settings("a")).await;
    assert!(started.elapsed() < Duration::from_secs(20), "at once");
    assert_eq!(stage.status(dead.pod()).await, "STOPPED");

    // Nor one whose last heartbeat came from a clock gone mad.
    let mad = doc! { "$set": { "lastHeartbeatAt": DateTime::MAX } };
    let its = doc! { "_id": next.pod().as_str() };
    stage.rows().update_one(its, mad).await.unwrap();
    stage.join(settings("a")).await;
    assert_eq!(stage.status(next.pod()).await, "STOPPED");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_start_under_one_name_at_once_one_comes_up() {
    let stage = Stage::new().await;
    let start = || {
        let database = stage.database.clone();
        tokio::spawn(async move {
            let pod = PodRegistry::join(&database, quick("a", 200, 3000)).await?;
            pod.keep_alive().await
        })
    };
    let (mut one, mut other) = (start(), start());
    let (loser, winner) = tokio::select! {
        loser = &mut one => (loser, other),
        loser = &mut other => (loser, one),
        () = tokio::time::sleep(SOON) => panic!("both came up"),
    };
    let error = loser.unwrap().unwrap_err();
    assert!(matches!(error, PodError::NodeNameInUse(_)), "{error:?}");
    assert!(!winner.is_finished());
    winner.abort();
    let active = doc! { "status": { "$ne": "STOPPED" } };
    assert_eq!(stage.rows().count_documents(active).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_whose_name_was_taken_while_it_was_silent_ends() {
    let stage = Stage::new().await;
    let silent = stage.join(quick("a", 100, 60_000)).await;
    stage.age(silent.pod(), Duration::from_secs(61)).await;
    let heir = stage.join(settings("a")).await;
    let error = Beating::of(&silent).end().await.unwrap_err();
    let PodError::NodeNameTaken(by) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(&by.pod, heir.pod());
    assert!(error.to_string().contains("took this node name"), "{error}");
    assert_eq!(stage.status(silent.pod()).await, "STOPPED");
    assert_eq!(stage.status(heir.pod()).await, "STARTING");

    // The same when its row has been removed since.
    let its = doc! { "_id": silent.pod().as_str() };
    stage.rows().delete_one(its).await.unwrap();
    let error = Beating::of(&silent).end().await.unwrap_err();
    assert!(matches!(error, PodError::NodeNameTaken(_)), "{error:?}");
    assert!(stage.row(silent.pod()).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn name_kept_by_a_row_that_cannot_be_judged_is_refused_and_the_row_named() {
    let stage = Stage::new().await;
    stage.join(settings("b")).await;
    let broken =
        doc! { "_id": "odd", "clusterId": "default", "nodeName": "a", "status": "RUNNING" };
    stage.rows().insert_one(broken).await.unwrap();
    let error = PodRegistry::join(&stage.database, settings("a"))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, PodError::Unreadable { .. }), "{error:?}");
    assert!(
        text.contains("\"odd\"") && text.contains("remove that row"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_is_heard_at_the_last_moment_keeps_its_name() {
    let server = Mongod::start().await.unwrap();
    let stage = Stage::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let slow = stage.join(quick("a", 200, 3000)).await;
    slow.running().await.unwrap();
    stage.age(slow.pod(), Duration::from_secs(4)).await;
    let held_up = FailCommand::on(&["update"])
        .times(1)
        .block(Duration::from_secs(2));
    let guard = held_up.set(&server.uri()).await.unwrap();
    let database = stage.database.clone();
    let heir = tokio::spawn(async move { PodRegistry::join(&database, settings("a")).await });
    entered(&server).await;
    // The other has found it stale and is about to say so.
    let beating = Beating::of(&slow);
    let error = heir.await.unwrap().unwrap_err();
    assert!(matches!(error, PodError::NodeNameInUse(_)), "{error:?}");
    assert!(!beating.0.is_finished());
    assert_eq!(stage.status(slow.pod()).await, "RUNNING");
    guard.off().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn name_that_is_refused_though_nobody_has_it_is_an_error_and_no_endless_loop() {
    let stage = Stage::new().await;
    stage.join(settings("a")).await.stopped().await.unwrap();
    let of_whatever_status = IndexModel::builder()
        .keys(doc! { "clusterId": 1, "nodeName": 1 })
        .options(
            IndexOptions::builder()
                .unique(true)
                .name("odd".to_owned())
                .build(),
        )
        .build();
    stage.rows().create_index(of_whatever_status).await.unwrap();
    let joined = tokio::time::timeout(SOON, PodRegistry::join(&stage.database, settings("a")));
    let error = joined.await.expect("an answer").unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.contains("look at the indexes of brain_pods"),
        "{cause}"
    );
}
