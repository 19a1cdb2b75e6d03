//! Without the store nothing is known, and that is what is said.

use std::time::{Duration, Instant};

use mongodb::bson::doc;
use serde_json::json;
use test_mongo::{Mongod, TestMongo, eventually};

use super::super::World;
use crate::fleet::{Fleet, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_unknown_and_not_empty_and_what_was_done_is_unknown() {
    let mut server = Mongod::start().await.unwrap();
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    let world = World::on(Fleet::on(mongo).await, &[]).await;
    let lease = world.held("acme", "ada").await;
    let admin = world.admin("acme", "boss");
    server.kill().unwrap();
    let holder = format!("holders/{lease}");
    for list in ["overview", "holders", "counters", "revocations", &holder] {
        let (status, said) = admin.call(reqwest::Method::GET, list, None).await;
        assert_eq!(
            (status, &said["code"]),
            (503, &"LEASE_UNAVAILABLE".into()),
            "{list}"
        );
    }
    let (status, said) = admin.revoke(&lease, Some("now")).await;
    assert_eq!((status, &said["code"]), (503, &"LEASE_UNAVAILABLE".into()));
    let message = said["message"].as_str().unwrap();
    assert!(
        message.contains("may have been revoked or not"),
        "{message}"
    );
    let all = json!({ "reason": "now", "holders": [{ "token": lease, "state": "HELD" }] });
    let (status, said) = admin.post("holders/revoke", all).await;
    assert_eq!(
        (status, &said["results"][0]["outcome"]),
        (200, &"unknown".into())
    );
    // Who is not admitted is told that, and nothing about the store.
    let other = world.admin("umbrella", "eve");
    let url = admin.url("holders");
    let call = world
        .ask(reqwest::Method::GET, &url)
        .bearer_auth(&other.token);
    assert_eq!(call.send().await.unwrap().status(), 403);
    server.restart().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_are_answered_in_the_time_of_one_when_the_store_stands_still() {
    let server = Mongod::start().await.unwrap();
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    let patient = ["--heartbeat=10s", "--stale=1m", "--reap-interval=1h"];
    let world = World::on(Fleet::on(mongo).await, &patient).await;
    let mut holders = Vec::new();
    for n in 0..40 {
        let token = world.held("acme", &format!("user-{n}")).await;
        holders.push(json!({ "token": token, "state": "HELD" }));
    }
    let admin = world.admin("acme", "boss");
    server.pause().unwrap();
    let asked = Instant::now();
    let all = json!({ "reason": "now", "holders": holders });
    let (status, said) = admin.post("holders/revoke", all).await;
    let took = asked.elapsed();
    server.resume().unwrap();
    assert_eq!(status, 200, "{said}");
    let results = said["results"].as_array().unwrap();
    assert_eq!(results.len(), 40);
    let unknown = results
        .iter()
        .filter(|result| result["outcome"] == "unknown");
    assert_eq!(unknown.count(), 40, "{said}");
    // One after the other, eight at a time, they would take five times as long as one may.
    assert!(took < Duration::from_secs(12), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_is_done_though_its_caller_has_left() {
    let server = Mongod::start().await.unwrap();
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    let patient = ["--heartbeat=10s", "--stale=1m", "--reap-interval=1h"];
    let world = World::on(Fleet::on(mongo).await, &patient).await;
    let mut holders = Vec::new();
    for n in 0..20 {
        let token = world.held("acme", &format!("user-{n}")).await;
        holders.push(json!({ "token": token, "state": "HELD" }));
    }
    let admin = world.admin("acme", "boss");
    server.pause().unwrap();
    let all = json!({ "reason": "now", "holders": holders });
    let call = world.ask(reqwest::Method::POST, &admin.url("holders/revoke"));
    let call = call.bearer_auth(&admin.token).json(&all);
    let left = call.timeout(Duration::from_millis(500)).send().await;
    assert!(left.unwrap_err().is_timeout());
    server.resume().unwrap();
    let revoking = doc! { "state": "REVOKING" };
    eventually("all of them are revoked", SOON, async || {
        let holders = world.fleet.holders();
        Ok(holders.count_documents(revoking.clone()).await? == 20)
    })
    .await
    .unwrap();
}
