//! A pod that is not heard for a while, and what it is told when it is heard again.

use std::time::Duration;

use mongodb::bson::doc;
use supervise::BootInstant;
use test_mongo::{Mongod, TestMongo, eventually};

use super::stage::{Beating, SOON, Stage, is_told, quick, settings, told};

#[tokio::test(flavor = "multi_thread")]
async fn pod_is_heard_again_and_again_and_told_nothing() {
    let stage = Stage::new().await;
    let pod = stage.join(quick("a", 100, 60_000)).await;
    let beating = Beating::of(&pod);
    for _ in 0..3 {
        let row = stage.row(pod.pod()).await.unwrap();
        let last = *row.get_datetime("lastHeartbeatAt").unwrap();
        stage.heard_after(pod.pod(), last).await;
    }
    assert!(!is_told(&pod).await);
    let row = stage.row(pod.pod()).await.unwrap();
    assert_eq!(
        row.get_datetime("bootedAt").unwrap(),
        row.get_datetime("writtenAt").unwrap()
    );
    pod.stopped().await.unwrap();
    beating.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_whose_row_was_removed_writes_it_again_and_is_told() {
    let stage = Stage::new().await;
    let pod = stage.join(quick("a", 100, 60_000)).await;
    pod.running().await.unwrap();
    let first = stage.row(pod.pod()).await.unwrap();
    stage.age(pod.pod(), Duration::from_secs(3601)).await;
    let other = stage.join(settings("b")).await;
    assert_eq!(other.remove_old().await.unwrap(), 1);
    assert!(!stage.liveness().await.is_alive(pod.pod()));

    let _beating = Beating::of(&pod);
    told(&pod).await;
    let again = stage.row(pod.pod()).await.unwrap();
    for field in [
        "clusterId",
        "nodeName",
        "endpoint",
        "status",
        "bootedAt",
        "staleMillis",
        "version",
        "labels",
    ] {
        assert_eq!(again.get(field), first.get(field), "{field}");
    }
    assert!(stage.liveness().await.is_alive(pod.pod()));
    assert!(!is_told(&pod).await, "once is enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_another_marked_as_stopped_comes_back_if_its_name_is_free_and_is_told() {
    let stage = Stage::new().await;
    let pod = stage.join(quick("a", 100, 60_000)).await;
    pod.running().await.unwrap();
    stage.age(pod.pod(), Duration::from_secs(61)).await;
    let heir = stage.join(settings("a")).await;
    assert_eq!(stage.status(pod.pod()).await, "STOPPED");
    heir.stopped().await.unwrap();

    let _beating = Beating::of(&pod);
    told(&pod).await;
    let row = stage.row(pod.pod()).await.unwrap();
    assert_eq!(row.get_str("status").unwrap(), "RUNNING");
    assert!(!row.contains_key("stoppedBy"), "{row}");
    assert!(stage.liveness().await.is_alive(pod.pod()));
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_whose_answer_comes_after_its_time_is_told() {
    let server = Mongod::start().await.unwrap();
    let stage = Stage::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let pod = stage.join(quick("a", 100, 2000)).await;
    let _beating = Beating::of(&pod);
    while is_told(&pod).await {}
    server.pause().unwrap();
    let end = BootInstant::now() + Duration::from_millis(2500);
    eventually("a silence of its time", SOON, || async {
        Ok(end.has_passed())
    })
    .await
    .unwrap();
    assert!(!is_told(&pod).await, "not before it is heard");
    server.resume().unwrap();
    told(&pod).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_go_on_after_the_server_was_away() {
    let mut server = Mongod::start().await.unwrap();
    let stage = Stage::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let pod = stage.join(quick("a", 100, 1000)).await;
    let beating = Beating::of(&pod);
    let row = stage.row(pod.pod()).await.unwrap();
    server.stop().await.unwrap();
    // What cannot be written now is not forgotten.
    pod.running().await.unwrap_err();
    server.restart().await.unwrap();
    told(&pod).await;
    stage
        .heard_after(pod.pod(), *row.get_datetime("lastHeartbeatAt").unwrap())
        .await;
    assert_eq!(stage.status(pod.pod()).await, "RUNNING");
    assert!(!beating.0.is_finished());
    drop(beating);
    let all = stage.rows().count_documents(doc! {}).await.unwrap();
    assert_eq!(all, 1);
}
