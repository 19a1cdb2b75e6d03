//! Many leases at once, written straight into the store: HELD, booked, and unused for so long that all may be taken.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use lease_shared::{LeaseRef, LeaseRequest, Tenancy};
use mongodb::bson::{Document, doc};

use crate::support::{World, lease_type, request_of, token};

/// One tenant per lease, so that each has counters of its own.
pub(crate) struct IdleLeases {
    pub(crate) tokens: Vec<String>,
}

const TEMPLATE: &str = "template";

/// Caps of one at three levels.
pub(crate) async fn world() -> World {
    let world = World::new().await;
    let body = "levels: { user: 1, project: 1, tenant: 1 }\nttlSeconds: 60";
    world.define("pdf", body).await;
    world
}

fn tenancy(tenant: &str) -> Tenancy {
    Tenancy::new(tenant, "thesis", "ada").unwrap()
}

impl IdleLeases {
    /// In place of everything that was there. They are copies of one that was really acquired.
    pub(crate) async fn instead(world: &World, kind: &str, count: usize) -> Self {
        let request = LeaseRequest::builder()
            .lease_type(lease_type(kind))
            .lease(LeaseRef::named("pdf").unwrap())
            .tenancy(tenancy(TEMPLATE))
            .build();
        wipe(world).await;
        let lease = world.leases.acquire(request).await.unwrap();
        let holder = world.all_holders().await.remove(0);
        let counters = world.all_counters().await;
        assert_eq!(counters.len(), 3);
        lease.into_token();
        wipe(world).await;
        let (mut holders, mut booked, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..count {
            let token = format!("{:032x}", fastrand::u128(..));
            let renamed = |key: &str| key.replace(TEMPLATE, &format!("t{n}"));
            let keys = holder.get_array("levels").unwrap().iter();
            let keys: Vec<String> = keys.map(|key| renamed(key.as_str().unwrap())).collect();
            let mut copy = holder.clone();
            copy.extend(doc! { "_id": &token, "levels": keys, "tenantId": format!("t{n}") });
            holders.push(copy);
            booked.extend(counters.iter().map(|counter| {
                let mut copy = counter.clone();
                let key = renamed(counter.get_str("_id").unwrap());
                copy.extend(doc! { "_id": key, "tokens": [&token], "tenantId": format!("t{n}") });
                copy
            }));
            tokens.push(token);
        }
        world.holders().insert_many(holders).await.unwrap();
        world.counters().insert_many(booked).await.unwrap();
        let old = doc! { "$set": { "lastSeenAt": { "$subtract": ["$$NOW", 90_000] } } };
        let aged = world.holders().update_many(doc! {}, vec![old]).await;
        assert_eq!(aged.unwrap().matched_count, count as u64);
        Self { tokens }
    }

    /// The same leases in another order.
    pub(crate) fn shuffled(&self) -> Vec<String> {
        let mut tokens = self.tokens.clone();
        fastrand::shuffle(&mut tokens);
        tokens
    }

    /// Every slot is taken by its next holder, who keeps it.
    pub(crate) async fn succeed(&self, world: &World) {
        let wait = Duration::from_secs(20);
        let successors = stream::iter(0..self.tokens.len()).map(async |n| {
            let request = request_of("pdf", &tenancy(&format!("t{n}")), wait);
            let lease = world.leases.acquire(request).await.unwrap();
            lease.check().await.unwrap();
            token(&lease);
            lease.into_token();
        });
        successors.buffer_unordered(16).collect::<Vec<()>>().await;
        world.leases.close().await;
    }
}

async fn wipe(world: &World) {
    for collection in [world.holders(), world.counters()] {
        collection.delete_many(doc! {}).await.unwrap();
    }
}

/// The state of each holder that is there.
pub(crate) async fn states(world: &World) -> std::collections::HashMap<String, String> {
    let text = |holder: &Document, field| holder.get_str(field).unwrap().to_owned();
    let holders = world.all_holders().await;
    holders
        .iter()
        .map(|holder| (text(holder, "_id"), text(holder, "state")))
        .collect()
}
