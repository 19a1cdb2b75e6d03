//! `revoke-pod` of more leases than are listed at a time, and by a store that does not do it.

use std::time::Duration;

use lease_brain::{api::RevokePodCall, client::BrainClient};
use lease_shared::{Holding, LeaseService, PodId};
use mongodb::bson::doc;
use secrecy::SecretString;
use serde_json::json;
use test_mongo::{FailCommand, Mongod, TestMongo};

use crate::{
    brain::{Brain, NO_POD, SECRET},
    support::{SOON, World},
};

/// How many leases are listed at a time.
const BATCH: usize = 1000;

/// A world with a server of its own, for what its server is told to do.
async fn world(server: &Mongod) -> World {
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    let world = World { mongo };
    world
        .define("pdf", "levels: { global: 99 }\nttlSeconds: 600")
        .await;
    world
}

/// A brain that leaves what looks dead alone.
fn brain(world: &World) -> Brain {
    Brain::start_with(world, "a", &["--reap-interval", "1h"])
}

/// Leases in the name of a pod that is not there: one that was acquired, and copies of it.
async fn hold(world: &World, count: usize) {
    let token = world.acquire(&["pdf"]);
    world.change(&token, doc! { "pod": NO_POD }).await;
    let holder = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    let copies = (1..count).map(|copy| {
        let mut holder = holder.clone();
        holder.insert("_id", format!("{copy:032x}"));
        holder
    });
    world.holders().insert_many(copies).await.unwrap();
}

/// What the store does to those who revoke. Pods are heard as before.
fn revoking(world: &World) -> FailCommand {
    let holders = format!("{}.resource_lease_holders", world.mongo.name());
    FailCommand::on(&["findAndModify"]).with("namespace", holders)
}

async fn held(world: &World) -> usize {
    let held = doc! { "state": "HELD" };
    let held = world.holders().count_documents(held).await.unwrap();
    usize::try_from(held).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_holds_more_than_a_batch_is_revoked_to_its_last_lease() {
    let server = Mongod::start().await.unwrap();
    let world = world(&server).await;
    let _brain = brain(&world);
    let many = 2 * BATCH + 10;
    hold(&world, many).await;
    // Those that cannot be read are revoked and told of, and keep nobody from the rest.
    let odd: Vec<_> = (1..=3).map(|copy| format!("{copy:032x}")).collect();
    let levels = doc! { "$set": { "levels": 7 } };
    let their = doc! { "_id": { "$in": &odd } };
    world.holders().update_many(their, levels).await.unwrap();
    // As a primary whose clock was ahead has written it.
    let later =
        doc! { "$set": { "createdAt": mongodb::bson::DateTime::from_millis(i64::MAX / 4) } };
    let its = doc! { "_id": format!("{:032x}", many - 1) };
    world.holders().update_one(its, later).await.unwrap();

    let done = world.operator(&["revoke-pod", NO_POD, "--yes", "--json"]);
    assert_eq!(done.code, Some(77), "{:?}", done.code);
    let mut facts = done.json();
    let failed = facts["failed"].as_array().unwrap().clone();
    assert_eq!(failed.len(), odd.len(), "{failed:?}");
    facts["failed"] = json!("…");
    assert_eq!(
        facts,
        json!({
            "pod": NO_POD, "total": many, "revoked": many - odd.len(), "cleanupPending": many - odd.len(), "gone": 0, "left": 0,
            "failed": "…",
        })
    );
    assert_eq!(held(&world).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_acquires_after_it_was_counted_is_not_part_of_it() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 9 }").await;
    hold(&world, 2).await;
    let service = LeaseService::builder(world.mongo.database().clone());
    let leases = service.follow_changes(false).start().await.unwrap();
    let pod = PodId::new(NO_POD).unwrap();
    let counted = leases.count_held_by(&pod).await.unwrap().unwrap();
    let later = world.acquire(&["pdf", "--user", "bob"]);
    world.change(&later, doc! { "pod": NO_POD }).await;
    assert_eq!(leases.held_by(&pod, 9).await.unwrap().len(), 3);
    let meant = leases.still_held(&counted, 9).await.unwrap();
    assert_eq!((counted.count(), meant.len()), (2, 2));
    let is_later = |holding: &Holding| holding.token().as_str() == later;
    assert!(!meant.iter().any(is_later), "{meant:?}");
    leases.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_pod_is_said_when_the_store_refuses_and_a_repetition_does_it() {
    let server = Mongod::start().await.unwrap();
    let world = world(&server).await;
    let _brain = brain(&world);
    hold(&world, BATCH + 5).await;
    let refused = revoking(&world).error_code(13);
    let refused = refused.set(&server.uri()).await.unwrap();
    let stuck = world.operator(&["revoke-pod", NO_POD, "--yes"]);
    assert_eq!(stuck.code, Some(77), "{:?}", stuck.code);
    assert_eq!(
        stuck.stdout,
        "0 revoked, 0 not held any more, 1000 failed, 5 not tried\n"
    );
    assert!(
        stuck
            .stderr
            .ends_with("lease: 5 were not tried: repeat it when what failed is mended\n"),
        "{:?}",
        stuck.stderr.lines().last()
    );
    assert_eq!(held(&world).await, BATCH + 5);

    refused.off().await.unwrap();
    let done = world.operator(&["revoke-pod", NO_POD, "--yes"]);
    assert_eq!(done.code, Some(0), "{:?}", done.code);
    let all = "1005 revoked (1005 clean-ups pending), 0 not held any more, 0 failed\n";
    assert_eq!(done.stdout, all);
    assert_eq!(held(&world).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_answered_while_the_store_still_holds_the_revocations_up() {
    let server = Mongod::start().await.unwrap();
    let world = world(&server).await;
    let brain = brain(&world);
    hold(&world, 3).await;
    let blocked = revoking(&world).block(Duration::from_secs(3));
    let blocked = blocked.set(&server.uri()).await.unwrap();
    let client = BrainClient::new(&brain.endpoint, &SecretString::from(SECRET)).unwrap();
    let call = RevokePodCall {
        pod: PodId::new(NO_POD).unwrap(),
        reason: None,
    };
    let job = client.revoke_pod(&call).await.unwrap();
    let progress = client.job(&job).await.unwrap();
    assert_eq!((progress.done, progress.revoked), (false, 0));
    let done = async || Ok(client.job(&job).await?.done);
    test_mongo::eventually("the job ends", SOON, done)
        .await
        .unwrap();
    let progress = client.job(&job).await.unwrap();
    assert_eq!((progress.total, progress.revoked), (3, 3), "{progress:?}");
    blocked.off().await.unwrap();
}
