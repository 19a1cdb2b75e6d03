//! `pods`, and what `list` and `show` say of the pod of a lease.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_brain::cluster::{PodRegistry, PodSettings};
use mongodb::bson::doc;
use serde_json::{Value, json};

use crate::support::World;

async fn pod(world: &World, node: &str) -> PodRegistry {
    let settings = PodSettings {
        cluster_id: "default".to_owned(),
        node_name: node.to_owned(),
        endpoint: format!("http://{node}.example:7311"),
        labels: BTreeMap::from([("zone".to_owned(), "b".to_owned())]),
        heartbeat: Duration::from_secs(100),
        stale: Duration::from_secs(300),
    };
    let database = world.mongo.database();
    let pod = PodRegistry::join(database, settings).await.unwrap();
    pod.running().await.unwrap();
    pod
}

/// Makes a pod look as if it had died a while ago.
async fn bury(world: &World, pod: &PodRegistry) {
    let older =
        doc! { "$set": { "lastHeartbeatAt": { "$subtract": ["$lastHeartbeatAt", 400_000] } } };
    let its = doc! { "_id": pod.pod().as_str() };
    let aged = world.pods().update_one(its, vec![older]).await.unwrap();
    assert_eq!(aged.matched_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_shows_who_is_alive_and_since_when_the_others_are_dead() {
    let world = World::new().await;
    let none = world.lease(&["pods"]);
    none.assert(0, "no pods: no brain has been heard for an hour\n");
    assert_eq!(none.stdout, "");
    assert_eq!(world.lease(&["pods", "--json"]).json(), json!([]));

    let living = pod(&world, "a").await;
    let dead = pod(&world, "b").await;
    bury(&world, &dead).await;
    let ended = pod(&world, "c").await;
    ended.stopped().await.unwrap();
    world
        .pods()
        .insert_one(doc! { "_id": "odd" })
        .await
        .unwrap();
    let output = world.lease(&["pods"]);
    assert_eq!(output.code, Some(0));
    let warning = "lease: warning: not shown: pod \"odd\": ";
    assert!(output.stderr.starts_with(warning), "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    let mut table = output.table();
    let last_heard = |row: &mut Vec<String>| row.remove(4);
    let (of_dead, of_ended) = (last_heard(&mut table[2]), last_heard(&mut table[3]));
    assert!(of_dead.starts_with("dead, last heard at 2"), "{of_dead}");
    assert!(of_ended.starts_with("ended at 2"), "{of_ended}");
    let version = env!("CARGO_PKG_VERSION");
    let [living_id, dead_id, ended_id] = [&living, &dead, &ended].map(|pod| pod.pod().as_str());
    assert_eq!(
        table,
        [
            &[
                "POD", "CLUSTER", "NODE", "STATUS", "ALIVE", "ENDPOINT", "BOOTED", "VERSION",
                "LABELS"
            ][..],
            &[
                living_id,
                "default",
                "a",
                "RUNNING",
                "alive",
                "http://a.example:7311",
                "TIME",
                version,
                "zone=b"
            ],
            &[
                dead_id,
                "default",
                "b",
                "RUNNING",
                "http://b.example:7311",
                "TIME",
                version,
                "zone=b"
            ],
            &[
                ended_id,
                "default",
                "c",
                "STOPPED",
                "http://c.example:7311",
                "TIME",
                version,
                "zone=b"
            ],
        ]
    );

    let json = world.lease(&["pods", "--json"]).json();
    let mut first = json[0].clone();
    for differs in ["lastBeatSeconds", "bootedAt", "lastHeartbeatAt"] {
        assert!(!first[differs].is_null());
        first[differs] = json!("…");
    }
    let whole = json!({
        "pod": living_id, "clusterId": "default", "nodeName": "a", "alive": true, "status": "RUNNING",
        "endpoint": "http://a.example:7311", "lastBeatSeconds": "…", "staleMillis": 300_000, "bootedAt": "…",
        "lastHeartbeatAt": "…", "version": version, "labels": { "zone": "b" },
    });
    assert_eq!(first, whole);
    let alive: Vec<_> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["alive"])
        .collect();
    assert_eq!(alive, [true, false, false]);
    assert!(json[1]["lastBeatSeconds"].as_u64().unwrap() >= 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn list_and_show_say_whether_the_pod_of_a_lease_is_alive() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 9 }").await;
    let living = pod(&world, "a").await;
    let dead = pod(&world, "b").await;
    bury(&world, &dead).await;
    let gone = "1f0c9a6e-0000-4000-8000-000000000000";
    let (living, dead) = (living.pod().as_str(), dead.pod().as_str());
    let table: [(&str, Option<&str>, &str, &str, Value); 4] = [
        ("eve", None, "-", "-", Value::Null),
        (
            "ada",
            Some(living),
            "a",
            &format!("{living} on a (alive, bound)"),
            json!(true),
        ),
        (
            "bob",
            Some(dead),
            "b (dead)",
            &format!("{dead} on b (dead, bound)"),
            json!(false),
        ),
        (
            "joe",
            Some(gone),
            "1f0c9a6e (dead)",
            &format!("{gone} (dead, bound)"),
            json!(false),
        ),
    ];
    for (user, pod, in_list, in_show, alive) in &table {
        let token = world.acquire(&["pdf", "--user", user]);
        if let Some(pod) = pod {
            let its = doc! { "$set": { "pod": *pod, "podBound": true } };
            let filter = doc! { "_id": &token };
            world.holders().update_one(filter, its).await.unwrap();
        }
        let listed = world.lease(&["list", "--user", user]);
        listed.assert(0, "");
        assert_eq!(listed.table()[1][7], *in_list, "{listed:?}");
        let shown = world.lease(&["show", &token]);
        shown.assert(0, "");
        assert!(
            shown
                .table()
                .contains(&vec!["pod".to_owned(), (*in_show).to_owned()]),
            "{shown:?}"
        );
        let json = world.lease(&["list", "--json", "--user", user]).json();
        assert_eq!(
            (&json[0]["podAlive"], &json[0]["pod"]),
            (alive, &json!(pod))
        );
        assert_eq!(
            &world.lease(&["show", &token, "--json"]).json()["podAlive"],
            alive
        );
    }
}
