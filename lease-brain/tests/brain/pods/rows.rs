//! What is written of a pod, and how surely.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_brain::cluster::{PodError, PodLiveness, PodRegistry, PodStatus};
use lease_shared::{PodId, apply_time_limits};
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::{Acknowledgment, ReadPreference, SelectionCriteria, WriteConcern};
use test_mongo::{FailCommand, Mongod, TestMongo, eventually};

use super::stage::{Beating, SOON, Stage, entered, is_told, quick, settings, told};

/// The server refuses to confirm.
const NO_MAJORITY: i32 = 64;

#[tokio::test(flavor = "multi_thread")]
async fn row_is_acknowledged_before_join_returns() {
    let server = Mongod::start().await.unwrap();
    let stage = Stage::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    stage.join(settings("warm")).await;
    let unconfirmed = doc! { "code": NO_MAJORITY, "errmsg": "waiting for replication timed out" };
    let unsure = || FailCommand::on(&["findAndModify"]).write_concern_error(unconfirmed.clone());

    // Applied each time, confirmed never: its row is there, and no pod came of it.
    let always = unsure().set(&server.uri()).await.unwrap();
    let error = PodRegistry::join(&stage.database, settings("a"))
        .await
        .unwrap_err();
    always.off().await.unwrap();
    assert!(matches!(error, PodError::Store { .. }), "{error:?}");
    assert_eq!(stage.rows().count_documents(doc! {}).await.unwrap(), 2);

    // Confirmed at the second try, and one pod.
    let once = unsure().times(1).set(&server.uri()).await.unwrap();
    let pod = stage.join(settings("b")).await;
    once.off().await.unwrap();
    let row = stage.row(pod.pod()).await.unwrap();
    assert_eq!(row.get_str("status").unwrap(), "STARTING");
    let of_that_name = doc! { "nodeName": "b" };
    assert_eq!(stage.rows().count_documents(of_that_name).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_ask_for_a_majority_and_reads_for_the_primary_whatever_the_client_says() {
    let mongo = TestMongo::new().await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    let handler = EventHandler::callback(move |event| {
        if let CommandEvent::Started(started) = event {
            hearing.lock().unwrap().push(started.command);
        }
    });
    let client = mongo.client_with(|options| {
        apply_time_limits(options);
        options.command_event_handler = Some(handler);
        options.write_concern = Some(WriteConcern::builder().w(Acknowledgment::Nodes(1)).build());
        let secondary = ReadPreference::SecondaryPreferred { options: None };
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(secondary));
    });
    let database = client.await.unwrap().database(mongo.name());
    let dead = PodRegistry::join(&database, quick("a", 100, 300))
        .await
        .unwrap();
    let pod = PodRegistry::join(&database, settings("a")).await.unwrap();
    pod.running().await.unwrap();
    pod.remove_old().await.unwrap();
    let liveness = PodLiveness::read(&database, None).await.unwrap();
    assert!(!liveness.is_alive(dead.pod()));

    let heard = std::mem::take(&mut *heard.lock().unwrap());
    let majority = doc! { "w": "majority", "j": true, "wtimeout": 4000 };
    let mut kinds: Vec<String> = Vec::new();
    for command in heard {
        let kind = command.keys().next().unwrap().clone();
        match kind.as_str() {
            "createIndexes" | "findAndModify" | "update" | "delete" => {
                let concern = command.get_document("writeConcern").unwrap();
                assert_eq!(normal(concern), majority, "{command}");
            }
            "aggregate" => assert_primary(&command),
            other => panic!("{other} is not looked at: {command}"),
        }
        kinds.push(kind);
    }
    kinds.sort();
    kinds.dedup();
    let all = [
        "aggregate",
        "createIndexes",
        "delete",
        "findAndModify",
        "update",
    ];
    assert_eq!(kinds, all);
}

/// With its numbers of one type.
fn normal(concern: &Document) -> Document {
    let mut concern = concern.clone();
    if let Ok(millis) = concern.get_i64("wtimeout") {
        concern.insert("wtimeout", i32::try_from(millis).unwrap());
    }
    concern
}

#[track_caller]
fn assert_primary(command: &Document) {
    // Which is where a replica set is read unless something else is said.
    if let Ok(preference) = command.get_document("$readPreference") {
        assert_eq!(preference.get_str("mode").unwrap(), "primary", "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strange_names_and_labels_are_kept_to_the_letter() {
    let stage = Stage::new().await;
    let strange = [
        "$ttlSeconds",
        "a|b",
        "a.b",
        "$$NOW",
        "$ref",
        "$id",
        "é \u{202e}",
    ];
    for name in strange {
        let mut settings = settings("a");
        settings.node_name = name.to_owned();
        settings.cluster_id = name.to_owned();
        settings.labels = strange.map(|it| (it.to_owned(), name.to_owned())).into();
        settings.labels.insert("empty".to_owned(), String::new());
        let pod = stage.join(settings.clone()).await;
        pod.running().await.unwrap();
        let liveness = stage.liveness().await;
        assert_eq!(liveness.unreadable(), [""; 0]);
        let view = liveness.pods().iter().find(|view| &view.pod == pod.pod());
        let view = view.unwrap();
        assert_eq!((&*view.node_name, &*view.cluster_id), (name, name));
        assert_eq!(view.labels, settings.labels);
        assert!(liveness.is_alive(pod.pod()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_goes_forward_only() {
    let stage = Stage::new().await;
    let pod = stage.join(settings("a")).await;
    assert_eq!(stage.status(pod.pod()).await, "STARTING");
    pod.running().await.unwrap();
    assert_eq!(stage.status(pod.pod()).await, "RUNNING");
    pod.stopping().await.unwrap();
    assert_eq!(stage.status(pod.pod()).await, "STOPPING");
    pod.running().await.unwrap();
    assert_eq!(stage.status(pod.pod()).await, "STOPPING");
    pod.stopped().await.unwrap();
    pod.stopping().await.unwrap();
    assert_eq!(stage.status(pod.pod()).await, "STOPPED");
    assert_eq!(pod.status(), PodStatus::Stopped);
    // Whom a majority knows as stopped is dead, though it was heard a moment ago.
    let liveness = stage.liveness().await;
    assert!(!liveness.is_alive(pod.pod()));
    assert_eq!(liveness.endpoint(pod.pod()), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeat_that_arrives_after_the_end_does_not_bring_the_pod_back() {
    let server = Mongod::start().await.unwrap();
    let stage = Stage::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let pod = stage.join(quick("a", 100, 60_000)).await;
    pod.running().await.unwrap();
    let held_up = FailCommand::on(&["findAndModify"])
        .times(1)
        .block(Duration::from_secs(2));
    let guard = held_up.set(&server.uri()).await.unwrap();
    let beating = Beating::of(&pod);
    entered(&server).await;
    pod.stopped().await.unwrap();
    let ended = stage.row(pod.pod()).await.unwrap();
    assert_eq!(ended.get_str("status").unwrap(), "STOPPED");
    // Its heartbeat, sent while it was running, is carried out only now.
    beating.end().await.unwrap();
    assert_eq!(stage.row(pod.pod()).await.unwrap(), ended);
    guard.off().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_rows_of_an_hour_ago_are_removed() {
    let stage = Stage::new().await;
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let mut kept = Vec::new();
    for (node, age) in [("a", 0), ("b", 59), ("c", 61), ("d", 61), ("e", 59)] {
        let pod = stage.join(settings(node)).await;
        if matches!(node, "d" | "e") {
            pod.stopped().await.unwrap();
        }
        stage.age(pod.pod(), minutes(age)).await;
        if age < 60 {
            kept.push(pod.pod().clone());
        }
    }
    let mut odd = vec![doc! { "_id": "odd", "status": "RUNNING" }];
    // The first and the last date that there is are not worth keeping either.
    for (id, date) in [("first", DateTime::MIN), ("last", DateTime::MAX)] {
        odd.push(doc! { "_id": id, "lastHeartbeatAt": date });
    }
    stage.rows().insert_many(odd).await.unwrap();
    let any = stage.join(settings("f")).await;
    assert_eq!(any.remove_old().await.unwrap(), 4);
    assert_eq!(any.remove_old().await.unwrap(), 0);
    for pod in &kept {
        assert!(stage.row(pod).await.is_some(), "{pod}");
    }
    assert_eq!(stage.rows().count_documents(doc! {}).await.unwrap(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn next_heartbeat_mends_whatever_is_broken_in_a_row_and_no_other_pod_takes_it_for_dead() {
    let stage = Stage::new().await;
    let pod = stage.join(settings("a")).await;
    let other = stage.join(quick("b", 100, 300)).await;
    let _beating = Beating::of(&other);
    // So that what it does not hear it takes for dead.
    let nobody = PodId::new("nobody").unwrap();
    eventually("it is in touch", SOON, async || {
        Ok(other.liveness().await.unwrap().is_dead(&nobody))
    })
    .await
    .unwrap();
    let whole = stage.row(pod.pod()).await.unwrap();
    for field in whole.keys().filter(|field| *field != "_id") {
        for broken in [Bson::Null, "x".into(), doc! { "$unset": field }.into()] {
            let update = match &broken {
                Bson::Document(unset) => vec![unset.clone()],
                value => vec![doc! { "$set": { field: value.clone() } }],
            };
            let its = doc! { "_id": pod.pod().as_str() };
            stage.rows().update_one(its, update).await.unwrap();
            if !["lastHeartbeatAt", "endpoint"].contains(&field.as_str()) {
                let dead = other.liveness().await.unwrap().is_dead(pod.pod());
                assert!(!dead, "{field} {broken}");
            }
            pod.running().await.unwrap();
            let row = stage.row(pod.pod()).await.unwrap();
            assert_eq!(row.get_str("status").unwrap(), "RUNNING");
            let alive = other.liveness().await.unwrap();
            assert!(alive.is_alive(pod.pod()), "{field} {broken}: {row}");
            assert_eq!(alive.unreadable(), [""; 0], "{field} {broken}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_somebody_else_called_stopped_says_that_it_is_there_and_asks_about_its_leases() {
    let stage = Stage::new().await;
    let pod = stage.join(settings("a")).await;
    pod.running().await.unwrap();
    for status in ["STOPPED", "STOPPING"] {
        assert!(!is_told(&pod).await);
        let its = doc! { "_id": pod.pod().as_str() };
        let by_hand = doc! { "$set": { "status": status } };
        stage.rows().update_one(its, by_hand).await.unwrap();
        pod.running().await.unwrap();
        assert_eq!(stage.status(pod.pod()).await, "RUNNING", "{status}");
        told(&pod).await;
    }
}
