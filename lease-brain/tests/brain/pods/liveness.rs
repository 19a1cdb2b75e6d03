//! Who is alive, by the one definition.

use std::time::Duration;

use lease_brain::cluster::{PodLiveness, PodRow, PodStatus};
use lease_shared::PodId;
use mongodb::bson::{DateTime, doc};

use super::stage::{Stage, quick, settings};

fn id(text: &str) -> PodId {
    PodId::new(text).unwrap()
}

/// Heard `silence` milliseconds ago, of 30 seconds that it may be silent.
fn row(pod: &str, silence: i64) -> PodRow {
    PodRow {
        pod: id(pod),
        cluster_id: "default".to_owned(),
        node_name: format!("node-{pod}"),
        endpoint: Some(format!("http://{pod}:7311")),
        status: PodStatus::Running,
        booted_at: DateTime::from_millis(0),
        last_heartbeat_at: DateTime::from_millis(1_000_000 - silence),
        stale_millis: 30_000,
        written_at: DateTime::from_millis(0),
        version: "1".to_owned(),
        labels: Default::default(),
        now: DateTime::from_millis(1_000_000),
    }
}

#[test]
fn alive_is_who_has_not_stopped_is_heard_and_can_be_reached() {
    let with = |pod, change: fn(&mut PodRow)| {
        let mut row = row(pod, 0);
        change(&mut row);
        row
    };
    let table = [
        (row("heard", 0), true),
        (row("at-the-limit", 30_000), true),
        (row("silent", 30_001), false),
        // Its clock was another's, of a primary that is none any more.
        (row("ahead", -5000), true),
        (row("an-hour-ahead", -3_600_000), true),
        (row("far-ahead", -3_600_001), false),
        (with("starting", |it| it.status = PodStatus::Starting), true),
        (with("stopping", |it| it.status = PodStatus::Stopping), true),
        (with("stopped", |it| it.status = PodStatus::Stopped), false),
        (with("nowhere", |it| it.endpoint = None), false),
        (with("empty", |it| it.endpoint = Some(String::new())), false),
        (with("negative", |it| it.stale_millis = -1), true),
        (
            with("first", |it| it.last_heartbeat_at = DateTime::MIN),
            false,
        ),
        (
            with("last", |it| it.last_heartbeat_at = DateTime::MAX),
            false,
        ),
    ];
    let liveness = PodLiveness::of_rows(table.iter().map(|it| it.0.clone()), None);
    for (row, alive) in &table {
        assert_eq!(liveness.is_alive(&row.pod), *alive, "{row:?}");
        let endpoint = row.endpoint.as_deref().filter(|_| *alive);
        assert_eq!(liveness.endpoint(&row.pod), endpoint, "{row:?}");
        assert_eq!(liveness.node_name(&row.pod), Some(&*row.node_name));
    }
    assert_eq!(liveness.pods().len(), table.len());
}

#[test]
fn no_row_promises_to_be_silent_for_more_than_an_hour() {
    let promise = |silence| PodRow {
        stale_millis: i64::MAX,
        ..row("a", silence)
    };
    assert!(!promise(3_600_000).is_stale());
    assert!(promise(3_600_001).is_stale());
}

#[test]
fn own_pod_is_always_alive_and_an_unknown_one_is_dead() {
    let stopped = PodRow {
        status: PodStatus::Stopped,
        ..row("own", 99_000)
    };
    let liveness = PodLiveness::of_rows([stopped.clone()], Some(&id("own")));
    assert!(liveness.is_alive(&id("own")));
    assert!(liveness.pods()[0].alive);
    assert!(!liveness.is_alive(&id("unknown")));
    assert_eq!(liveness.node_name(&id("unknown")), None);
    let without_row = PodLiveness::of_rows([], Some(&id("own")));
    assert!(without_row.is_alive(&id("own")));
    let seen_by_another = PodLiveness::of_rows([stopped], Some(&id("another")));
    assert!(!seen_by_another.is_alive(&id("own")));
}

#[test]
fn pods_stand_by_cluster_and_name_and_the_newest_of_a_name_first() {
    let of = |pod, cluster: &str, node: &str, booted| PodRow {
        cluster_id: cluster.to_owned(),
        node_name: node.to_owned(),
        booted_at: DateTime::from_millis(booted),
        ..row(pod, 0)
    };
    let rows = [
        of("1", "b", "a", 5),
        of("2", "a", "b", 5),
        of("3", "a", "a", 5),
        of("4", "a", "a", 6),
    ];
    let liveness = PodLiveness::of_rows(rows, None);
    let order: Vec<_> = liveness.pods().iter().map(|it| it.pod.as_str()).collect();
    assert_eq!(order, ["4", "3", "2", "1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_is_judged_by_its_own_promise_in_the_time_of_the_server() {
    let stage = Stage::new().await;
    let short = stage.join(quick("short", 10_000, 30_000)).await;
    let long = stage.join(quick("long", 60_000, 600_000)).await;
    let liveness = stage.liveness().await;
    assert!(liveness.is_alive(short.pod()) && liveness.is_alive(long.pod()));
    for pod in [short.pod(), long.pod()] {
        stage.age(pod, Duration::from_secs(60)).await;
    }
    let liveness = stage.liveness().await;
    assert!(!liveness.is_alive(short.pod()));
    assert!(liveness.is_alive(long.pod()));
    let of_own = PodLiveness::read(&stage.database, Some(short.pod()));
    assert!(of_own.await.unwrap().is_alive(short.pod()));
    let seen_by_long = long.liveness().await.unwrap();
    assert!(!seen_by_long.is_alive(short.pod()) && seen_by_long.is_alive(long.pod()));
    stage.age(long.pod(), Duration::from_secs(3600)).await;
    assert!(long.liveness().await.unwrap().is_alive(long.pod()));

    let views = liveness.pods();
    let ages: Vec<_> = views.iter().map(|it| it.last_beat_seconds).collect();
    assert!(ages.iter().all(|age| (60..90).contains(age)), "{ages:?}");
    let json = serde_json::to_value(&views[0]).unwrap();
    assert_eq!(json["nodeName"], "long");
    assert_eq!(json["alive"], true);
    assert_eq!(json["status"], "STARTING");
    assert_eq!(json["staleMillis"], 600_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_that_cannot_be_read_is_shown_apart_and_counts_as_dead() {
    let stage = Stage::new().await;
    let pod = stage.join(settings("a")).await;
    let broken = [
        doc! { "_id": "no-fields" },
        doc! { "_id": 7 },
        doc! { "_id": "no-date", "clusterId": "default", "nodeName": "b", "endpoint": "http://b", "status": "RUNNING",
        "staleMillis": 30_000, "bootedAt": 7, "lastHeartbeatAt": "now", "writtenAt": 7 },
        doc! { "_id": "no-status", "status": "ASLEEP" },
    ];
    stage.rows().insert_many(broken).await.unwrap();
    let liveness = stage.liveness().await;
    assert!(liveness.is_alive(pod.pod()));
    assert_eq!(liveness.pods().len(), 1);
    assert!(!liveness.is_alive(&id("no-date")));
    let unreadable = liveness.unreadable().join("\n");
    for row in [
        "pod \"no-fields\": ",
        "pod 7: ",
        "pod \"no-date\": ",
        "pod \"no-status\": ",
    ] {
        assert!(unreadable.contains(row), "{unreadable}");
    }
}
