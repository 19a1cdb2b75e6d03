//! One works on a clean-up at a time, and only for as long as its claim lasts.

use std::time::Duration;

use mongodb::bson::doc;

use super::{CLAIM_OVER, claim, cleaner, exclusive, revoked, world};

#[tokio::test(flavor = "multi_thread")]
async fn of_several_that_claim_at_once_one_gets_it() {
    let world = world().await;
    let services = [world.another_service().await, world.another_service().await];
    for round in 0..30 {
        let token = revoked(&world, "hard", Some("pod-a"), &format!("user-{round}")).await;
        let claims = (0..8).map(|n| {
            let (leases, token) = (services[n % 2].clone(), token.clone());
            tokio::spawn(async move { claim(&leases, &token).await })
        });
        let mut winners = Vec::new();
        for claim in claims.collect::<Vec<_>>() {
            winners.extend(claim.await.unwrap());
        }
        assert_eq!(winners.len(), 1);
        assert!(winners.remove(0).finish().await.unwrap());
    }
    world.assert_counters_equal_holders().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_keeps_others_away_for_a_minute_and_counts_as_a_try() {
    let world = world().await;
    let token = exclusive(&world).await;
    let first = claim(&world.leases, &token).await.unwrap();
    assert_eq!(first.attempts, 1);
    assert_eq!(first.revocation.token, token);
    world.age_cleanup(&token, Duration::from_secs(55)).await;
    assert!(claim(&world.leases, &token).await.is_none());
    world.age_cleanup(&token, Duration::from_secs(6)).await;
    assert_eq!(claim(&world.leases, &token).await.unwrap().attempts, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_renewed_lasts_for_another_minute() {
    let world = world().await;
    let token = exclusive(&world).await;
    let mut first = claim(&world.leases, &token).await.unwrap();
    for _ in 0..3 {
        world.age_cleanup(&token, Duration::from_secs(50)).await;
        let told = first.claim().to_owned();
        assert!(first.renew().await.unwrap());
        assert_ne!(
            first.claim(),
            told,
            "who was told the old one may not begin"
        );
        assert!(claim(&world.leases, &token).await.is_none());
    }
    assert!(first.finish().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_ran_out_and_was_taken_over_ends_nothing() {
    let world = world().await;
    let token = exclusive(&world).await;
    let mut renews = claim(&world.leases, &token).await.unwrap();
    world.age_cleanup(&token, CLAIM_OVER).await;
    let finishes = claim(&world.leases, &token).await.unwrap();
    world.age_cleanup(&token, CLAIM_OVER).await;
    let fails = claim(&world.leases, &token).await.unwrap();
    world.age_cleanup(&token, CLAIM_OVER).await;
    let last = claim(&world.leases, &token).await.unwrap();

    let before = world.holder(&token).await;
    assert!(!renews.renew().await.unwrap());
    assert!(!finishes.finish().await.unwrap());
    fails
        .failed("it was not mine any more", false)
        .await
        .unwrap();
    assert_eq!(world.holder(&token).await, before);
    assert_eq!(world.in_use().await["pdf|global|"], 1);

    assert!(last.finish().await.unwrap());
    assert_eq!(world.in_use().await["pdf|global|"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_works_under_a_claim_while_it_lasts() {
    let world = world().await;
    let token = exclusive(&world).await;
    let cleanups = world.another_service().await.cleanups();
    let under = async |claim: &str| cleanups.under_claim(&token, claim).await.unwrap();
    assert!(under("none").await.is_none(), "nobody has claimed it");
    let mut first = claim(&world.leases, &token).await.unwrap();
    let (revocation, left) = under(first.claim()).await.unwrap();
    assert_eq!(revocation.token, token);
    assert!((50..=60).contains(&left.as_secs()), "{left:?}");
    assert!(under("another").await.is_none());
    world.age_cleanup(&token, Duration::from_secs(40)).await;
    let (_, left) = under(first.claim()).await.unwrap();
    assert!((10..=20).contains(&left.as_secs()), "{left:?}");
    assert!(first.renew().await.unwrap());
    world.age_cleanup(&token, CLAIM_OVER).await;
    assert!(under(first.claim()).await.is_none(), "it has run out");
    let second = claim(&world.leases, &token).await.unwrap();
    assert!(under(first.claim()).await.is_none());
    assert!(under(second.claim()).await.is_some());
    let claim = second.claim().to_owned();
    second.finish().await.unwrap();
    assert!(under(&claim).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_revoked_lease_can_be_claimed() {
    let world = world().await;
    let token = exclusive(&world).await;
    assert!(world.leases.cleanups().is_open(&token).await.unwrap());
    for state in ["PENDING", "HELD"] {
        world.set(&token, doc! { "$set": { "state": state } }).await;
        assert!(claim(&world.leases, &token).await.is_none());
        assert!(!world.leases.cleanups().is_open(&token).await.unwrap());
        assert!(!world.leases.cleanups().abandon(&token).await.unwrap());
        assert!(!world.leases.cleanups().retry(&token).await.unwrap());
    }
    world.holders().delete_many(doc! {}).await.unwrap();
    let cleanups = world.leases.cleanups();
    assert!(cleanups.claim(&token, &cleaner()).await.unwrap().is_none());
    assert!(!cleanups.is_open(&token).await.unwrap());
    assert!(!cleanups.abandon(&token).await.unwrap());
    assert!(!cleanups.retry(&token).await.unwrap());
}
