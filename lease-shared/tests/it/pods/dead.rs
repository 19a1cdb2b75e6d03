//! Leases of dead pods are revoked, and one that was used after it was listed is not.

use lease_shared::{Holding, Lease, Release, RevocationReason};
use mongodb::bson::doc;

use crate::support::{World, in_revocation, pod_id, request, request_by, token};

async fn world() -> World {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 9 }\nttlSeconds: 60")
        .await;
    world
}

async fn lease(world: &World, pod: &str, who: &str) -> Lease {
    let request = request_by("soft", Some(pod), who);
    world.leases.acquire(request).await.unwrap()
}

/// The one lease of `pod-a`, as a sweeper lists it.
async fn listed(world: &World) -> Holding {
    let mut listed = world.leases.held_by(&pod_id("pod-a"), 9).await.unwrap();
    assert_eq!(listed.len(), 1);
    listed.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_not_used_since_it_was_listed_is_revoked() {
    let world = world().await;
    let lease = lease(&world, "pod-a", "ada").await;
    lease.check().await.unwrap();
    let holding = listed(&world).await;
    assert_eq!(holding.token(), &token(&lease));
    assert!(world.leases.revoke_of_dead_pod(&holding).await.unwrap());
    assert!(
        !world.leases.revoke_of_dead_pod(&holding).await.unwrap(),
        "once"
    );
    let lost = lease.check().await.unwrap_err().to_string();
    assert!(lost.contains("its pod died"), "{lost}");
    assert_eq!(world.in_use().await["pdf|global|"], 0);
    let told = world.listener.revocations.lock().unwrap();
    assert_eq!((told.len(), told[0].reason), (1, RevocationReason::Pod));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_used_or_given_back_after_it_was_listed_is_left_alone() {
    for way in ["checked", "payload", "released", "revoked", "another pod's"] {
        let world = world().await;
        let lease = lease(&world, "pod-a", "ada").await;
        let token = token(&lease);
        let holding = listed(&world).await;
        let state = match way {
            "checked" => lease.check().await.map(|()| Some("HELD")).unwrap(),
            "payload" => {
                lease.update_payload(doc! { "a": 1 }).await.unwrap();
                Some("HELD")
            }
            "released" => {
                assert_eq!(lease.release().await.unwrap(), Release::Released);
                None
            }
            "revoked" => {
                world.set(&token, in_revocation("revoke")).await;
                Some("REVOKING")
            }
            _ => {
                world.set(&token, doc! { "$set": { "pod": "pod-b" } }).await;
                Some("HELD")
            }
        };
        let before = world.holder(&token).await;
        let revoked = world.leases.revoke_of_dead_pod(&holding).await.unwrap();
        assert!(!revoked, "{way}");
        assert_eq!(world.holder(&token).await, before, "{way}");
        assert_eq!(world.state(&token).await.as_deref(), state, "{way}");
        assert!(world.listener.revocations.lock().unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_held_by_a_pod_is_listed_and_no_more_than_was_asked_for() {
    let world = world().await;
    let a = [
        lease(&world, "pod-a", "ada").await,
        lease(&world, "pod-a", "bob").await,
        lease(&world, "pod-a", "cid").await,
    ];
    let pending = lease(&world, "pod-c", "eve").await;
    let revoked = lease(&world, "pod-d", "fay").await;
    let b = lease(&world, "pod-b", "dan").await;
    let podless = world.leases.acquire(request("pdf", "gus")).await.unwrap();
    let pending_state = doc! { "$set": { "state": "PENDING" } };
    world.set(&token(&pending), pending_state).await;
    world.set(&token(&revoked), in_revocation("idle")).await;
    let pods = world.leases.pods_with_leases().await.unwrap();
    assert_eq!(pods, [pod_id("pod-a"), pod_id("pod-b")]);
    let held_by = async |pod, limit| {
        let held = world.leases.held_by(&pod_id(pod), limit).await.unwrap();
        held.len()
    };
    assert_eq!(held_by("pod-a", 9).await, 3);
    assert_eq!(held_by("pod-a", 2).await, 2);
    assert_eq!(
        (held_by("pod-c", 9).await, held_by("nobody", 9).await),
        (0, 0)
    );
    drop((a, b, podless));
}
