//! What a tenant sees of its leases: its own, in the order asked for, and at the cost of what is shown.

mod cost;
mod counters;
mod list;

use lease_shared::{HolderQuery, HolderView, LeaseToken, Part, PartOf, TenantViews};
use mongodb::bson::{Document, doc};

use crate::support::World;

/// All that a test has.
const ALL: Part = Part {
    skip: 0,
    limit: 100,
};

async fn views(world: &World, tenant: &str) -> TenantViews {
    world.leases.views().of_tenant(tenant).unwrap()
}

/// Writes a holder as an acquire does, changed by `change`.
fn holder(number: usize, tenant: &str, change: Document) -> Document {
    let created = mongodb::bson::DateTime::from_millis(1_700_000_000_000 + 1000 * number as i64);
    let mut holder = doc! {
        "_id": format!("{:032x}", fastrand::u128(..)),
        "lease": "pdf", "resource": "pdf", "type": "soft", "state": "HELD",
        "levels": [format!("pdf|tenant|{tenant}")],
        "tenantId": tenant, "projectId": "thesis", "userId": "ada", "holderRef": format!("ref-{number}"),
        "pod": "pod-1", "podBound": true, "slotReturn": "AT_ONCE", "payload": {}, "ttlSeconds": 600_i64,
        "createdAt": created, "acquiredAt": created, "lastSeenAt": created, "beats": 0_i64,
    };
    holder.extend(change);
    holder
}

async fn add(world: &World, holders: impl IntoIterator<Item = Document>) {
    world.holders().insert_many(holders).await.unwrap();
}

async fn shown(views: &TenantViews, query: &HolderQuery) -> PartOf<HolderView> {
    views.holders(query, ALL).await.unwrap()
}

fn token_of(holder: &Document) -> LeaseToken {
    LeaseToken::new(holder.get_str("_id").unwrap()).unwrap()
}
