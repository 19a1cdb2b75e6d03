//! What is left to do for revoked leases: who may do it, how it ends, and what becomes of it when it does not.

mod claim;
mod due;
mod end;
mod failed;
mod unsure;

use std::time::Duration;

use lease_shared::{Cleanup, Decision, LeaseService, LeaseToken, LeaseType, PodId};

use crate::support::{World, pod_id, request_by};

/// Longer than a claim lasts.
pub(crate) const CLAIM_OVER: Duration = Duration::from_secs(61);

pub(crate) async fn world() -> World {
    let world = World::new().await;
    world
        .define("pdf", "levels: { user: 9, global: 9 }\nttlSeconds: 60")
        .await;
    world
}

/// A lease that an operator has revoked.
pub(crate) async fn revoked(world: &World, kind: &str, pod: Option<&str>, who: &str) -> LeaseToken {
    let lease = world.leases.acquire(request_by(kind, pod, who)).await;
    let token = lease.unwrap().into_token().unwrap();
    let revoked = world.leases.revoke(&token, &Decision::default()).await;
    revoked.unwrap();
    token
}

/// An exclusive lease of `pod-a`, whose clean-up is due.
pub(crate) async fn exclusive(world: &World) -> LeaseToken {
    revoked(world, "hard", Some("pod-a"), "ada").await
}

pub(crate) async fn claim(leases: &LeaseService, token: &LeaseToken) -> Option<Cleanup> {
    leases.cleanups().claim(token, &cleaner()).await.unwrap()
}

pub(crate) fn cleaner() -> PodId {
    pod_id("cleaner")
}

pub(crate) fn types() -> [LeaseType; 2] {
    ["soft", "hard"].map(|kind| kind.parse().unwrap())
}
