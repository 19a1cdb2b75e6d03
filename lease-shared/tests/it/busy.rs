//! A busy answer says what a caller needs to know.

use std::time::Duration;

use lease_shared::{LeaseRef, LeaseRequest, LeaseToken, Tenancy};
use mongodb::bson::doc;

use crate::support::{World, busy, in_revocation, lease_type, request, request_of, token, waiting};

#[tokio::test(flavor = "multi_thread")]
async fn it_names_the_oldest_holder_to_its_own_tenant_only() {
    let world = World::new().await;
    world
        .define("pdf", "resource: render\nlevels: { global: 2 }")
        .await;
    let first = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let _second = world.leases.acquire(request("pdf", "bob")).await.unwrap();
    let diagnosis = busy(world.leases.acquire(request("pdf", "eve")).await);
    assert_eq!((diagnosis.in_use, diagnosis.cap), (2, 2));
    let oldest = diagnosis
        .oldest
        .as_ref()
        .unwrap()
        .identity
        .as_ref()
        .unwrap();
    assert_eq!(
        (&oldest.token, oldest.tenancy.user()),
        (&token(&first), "ada")
    );
    let text = diagnosis.to_string();
    assert!(
        text.contains("render is busy: 2 of 2 in use at level global"),
        "{text}"
    );
    assert!(
        text.contains("ada's job") && text.contains("acme/thesis/ada"),
        "{text}"
    );
    let stranger = Tenancy::new("umbrella", "x", "y").unwrap();
    let text = busy(
        world
            .leases
            .acquire(request_of("pdf", &stranger, Duration::ZERO))
            .await,
    )
    .to_string();
    assert!(!text.contains("ada") && !text.contains("acme"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_comes_when_the_wait_ends() {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 1 }\nwaitMs: 300")
        .await;
    let _held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let refused = busy(
        world
            .leases
            .acquire(waiting("pdf", "bob", Duration::from_millis(700)))
            .await,
    );
    assert!(
        (700..5700).contains(&refused.waited.as_millis()),
        "{:?}",
        refused.waited
    );
}

/// An exclusive lease whose clean-up has failed with this error, if with any.
async fn awaits_clean_up(world: &World, tenant: &str, error: Option<&str>) -> LeaseToken {
    let request = LeaseRequest::builder()
        .lease_type(lease_type("hard"))
        .lease(LeaseRef::named("pdf").unwrap())
        .tenancy(Tenancy::new(tenant, "thesis", "ada").unwrap())
        .build();
    let lease = world.leases.acquire(request).await.unwrap();
    let token = lease.into_token().unwrap();
    world.set(&token, in_revocation("idle")).await;
    if let Some(error) = error {
        let failed = doc! { "$set": { "revocation.lastError": error } };
        world.set(&token, failed).await;
    }
    token
}

#[tokio::test(flavor = "multi_thread")]
async fn it_counts_what_awaits_its_clean_up_and_tells_the_own_tenants_error_only() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 6 }").await;
    for _ in 0..3 {
        awaits_clean_up(&world, "umbrella", Some("their plug is stuck")).await;
    }
    awaits_clean_up(&world, "acme", None).await;
    let own = awaits_clean_up(&world, "acme", Some("our plug is stuck")).await;
    let _held = world.leases.acquire(request("pdf", "bob")).await.unwrap();
    let ask = async |tenant: &str| {
        let tenancy = Tenancy::new(tenant, "thesis", "eve").unwrap();
        let request = request_of("pdf", &tenancy, Duration::ZERO);
        busy(world.leases.acquire(request).await)
    };
    // Whose error comes first among the holders is chance, so once is not enough.
    for _ in 0..5 {
        let said = ask("acme").await;
        assert_eq!((said.in_use, said.awaiting_cleanup), (6, 5));
        let text = said.to_string();
        let expected = "5 of these await their clean-up, last error: our plug is stuck";
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("their plug"), "{text}");
        let text = ask("stranger").await.to_string();
        assert!(text.contains("5 of these await their clean-up"), "{text}");
        assert!(!text.contains("stuck"), "{text}");
    }
    world.set(&own, doc! { "$set": { "state": "HELD" } }).await;
    assert_eq!(ask("acme").await.cleanup_error, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_counts_broken_documents_and_says_what_names_them() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 2 }").await;
    let broken = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let broken = broken.into_token().unwrap();
    let orphan = world.leases.acquire(request("pdf", "bob")).await.unwrap();
    let its = doc! { "_id": token(&orphan).as_str() };
    world.holders().delete_one(its).await.unwrap();
    let change = doc! { "$set": { "ttlSeconds": "x" } };
    world.set(&broken, change).await;
    // One that is broken keeps no slot but its own.
    let _lease = world.leases.acquire(request("pdf", "eve")).await.unwrap();
    let said = busy(world.leases.acquire(request("pdf", "kim")).await);
    assert_eq!((said.in_use, said.broken), (2, 1));
    let text = said.to_string();
    let expected = "broken documents among these, which never expire: 1";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("`lease reconcile --dry-run`"), "{text}");
    let named = world.leases.reconciler().reconcile(true).await.unwrap();
    let named = named
        .drift
        .iter()
        .any(|drift| drift.problem.contains(broken.as_str()));
    assert!(named);
}
