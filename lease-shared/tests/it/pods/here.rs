//! A pod that may have been taken for dead asks which of its leases it lost.

use std::time::Duration;

use lease_shared::{Lease, LeaseService, Phase, Release, RevocationReason};
use mongodb::bson::doc;

use crate::support::{World, in_revocation, pod_id, reached, request, request_by, token};

async fn world() -> World {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 9 }\nttlSeconds: 60")
        .await;
    world
}

async fn lease(world: &World, who: &str) -> Lease {
    let request = request_by("soft", Some("pod-a"), who);
    world.leases.acquire(request).await.unwrap()
}

/// The holders of what is lost, and why.
async fn lost(leases: &LeaseService) -> Vec<(String, RevocationReason)> {
    let lost = leases.lost_here().await.unwrap().into_iter();
    let mut lost: Vec<_> = lost
        .map(|revocation| (revocation.tenancy.user().to_owned(), revocation.reason))
        .collect();
    lost.sort_by(|a, b| a.0.cmp(&b.0));
    lost
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lost_lease_of_the_pod_is_given_once_with_why_and_what_its_handler_needs() {
    let world = world().await;
    let held = lease(&world, "ada").await;
    let reaped = lease(&world, "bob").await;
    let revoked = lease(&world, "cid").await;
    let gone = lease(&world, "dan").await;
    let podless = world.leases.acquire(request("pdf", "eve")).await.unwrap();
    let elsewhere = world.another_service().await;
    let others = request_by("soft", Some("pod-b"), "fay");
    let others = elsewhere.acquire(others).await.unwrap();
    let by_token = lease(&world, "gus").await.into_token().unwrap();
    gone.update_payload(doc! { "session": 7 }).await.unwrap();

    for lost in [&reaped, &podless, &others] {
        world.set(&token(lost), in_revocation("idle")).await;
    }
    world.set(&by_token, in_revocation("idle")).await;
    world.set(&token(&revoked), in_revocation("revoke")).await;
    let deleted = doc! { "_id": token(&gone).as_str() };
    world.holders().delete_one(deleted).await.unwrap();

    let mut given = world.leases.lost_here().await.unwrap();
    given.sort_by(|a, b| a.tenancy.user().cmp(b.tenancy.user()));
    let summary: Vec<_> = given
        .iter()
        .map(|lost| (lost.tenancy.user(), lost.reason, &lost.token))
        .collect();
    assert_eq!(
        summary,
        [
            ("bob", RevocationReason::Idle, &token(&reaped)),
            ("cid", RevocationReason::Revoke, &token(&revoked)),
            // Whoever took it has finished, so it was taken for dead.
            ("dan", RevocationReason::Pod, &token(&gone)),
        ]
    );
    assert_eq!(given[2].payload, doc! { "session": 7 });
    assert_eq!(given[2].pod, Some(pod_id("pod-a")));
    assert_eq!(lost(&world.leases).await, []);
    held.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_holder_knows_that_it_is_lost_or_let_it_go_is_not_given() {
    let world = world().await;
    let told = lease(&world, "ada").await;
    world.set(&token(&told), in_revocation("idle")).await;
    told.check().await.unwrap_err();
    let released = lease(&world, "bob").await;
    released.release().await.unwrap();
    drop(lease(&world, "cid").await);
    world.leases.close().await;
    assert_eq!(lost(&world.leases).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_being_released_is_not_lost() {
    let world = world().await;
    let lease = lease(&world, "ada").await;
    let gate = world.leases.failpoints().pause("take holder", Phase::After);
    let releasing = tokio::spawn(async move { lease.release().await });
    reached(&gate, "its gate").await;
    assert_eq!(lost(&world.leases).await, []);
    gate.open();
    assert_eq!(releasing.await.unwrap().unwrap(), Release::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_released_while_it_is_asked_about_is_not_lost() {
    let world = world().await;
    let lease = lease(&world, "ada").await;
    world.set(&token(&lease), in_revocation("idle")).await;
    let gate = world
        .leases
        .failpoints()
        .pause("touch holder", Phase::After);
    let leases = world.leases.clone();
    let asking = tokio::spawn(async move { lost(&leases).await });
    reached(&gate, "its gate").await;
    let released = lease.release().await.unwrap();
    assert_eq!(released, Release::AlreadyReleased);
    gate.open();
    assert_eq!(asking.await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_lags_does_not_make_a_held_lease_look_lost() {
    let world = world().await;
    let lease = lease(&world, "ada").await;
    // What the read shows is over by the time of the write.
    world.set(&token(&lease), in_revocation("idle")).await;
    let gate = world
        .leases
        .failpoints()
        .pause("touch holder", Phase::Before);
    let leases = world.leases.clone();
    let asking = tokio::spawn(async move { lost(&leases).await });
    reached(&gate, "its gate").await;
    let held = doc! { "$set": { "state": "HELD" } };
    world.set(&token(&lease), held).await;
    gate.open();
    assert_eq!(asking.await.unwrap(), []);
    // It is still known here, and found when it is lost indeed.
    world.set(&token(&lease), in_revocation("pod")).await;
    assert_eq!(
        lost(&world.leases).await,
        [("ada".to_owned(), RevocationReason::Pod)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_cannot_be_read_hides_no_lost_lease() {
    let world = world().await;
    let held = lease(&world, "ada").await;
    let reaped = lease(&world, "bob").await;
    let broken = lease(&world, "cid").await;
    world.set(&token(&reaped), in_revocation("idle")).await;
    world.set(&token(&broken), in_revocation("idle")).await;
    for lease in [&held, &broken] {
        let nameless = doc! { "$unset": "tenantId" };
        world.set(&token(lease), nameless).await;
    }
    let expected = [
        ("bob".to_owned(), RevocationReason::Idle),
        ("cid".to_owned(), RevocationReason::Pod),
    ];
    assert_eq!(lost(&world.leases).await, expected);
    assert_eq!(world.state(&token(&held)).await.unwrap(), "HELD");
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_restarts_no_lease_that_is_read_as_held() {
    let world = world().await;
    let lease = lease(&world, "ada").await;
    world.age(&token(&lease), Duration::from_secs(50)).await;
    let before = world.holder(&token(&lease)).await;
    assert_eq!(lost(&world.leases).await, []);
    assert_eq!(world.holder(&token(&lease)).await, before);
}
