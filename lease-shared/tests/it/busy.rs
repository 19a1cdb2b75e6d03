//! A busy answer says what a caller needs to know.

use std::time::Duration;

use lease_shared::Tenancy;

use crate::support::{World, busy, request, request_of, token, waiting};

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
