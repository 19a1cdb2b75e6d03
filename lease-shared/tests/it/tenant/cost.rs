//! With ten thousand leases of the tenant and ten thousand of another.

use std::time::Duration;

use lease_shared::{CounterQuery, HolderOrder, HolderQuery, Part};
use mongodb::bson::{Bson, Document, doc};

use super::{add, holder, views};
use crate::support::{COUNTERS, HOLDERS, World};

const MANY: usize = 10_000;
const PAGE: Part = Part { skip: 0, limit: 50 };

/// Documents and index keys that the commands examined, each: one pair for each command.
fn examined(ops: &[Document]) -> Vec<(i32, i32)> {
    let number = |op: &Document, field| op.get(field).and_then(Bson::as_i32).unwrap_or(0);
    ops.iter()
        .map(|op| (number(op, "docsExamined"), number(op, "keysExamined")))
        .collect()
}

async fn crowd() -> World {
    let world = World::new().await;
    for tenant in ["acme", "umbrella"] {
        let holders = (0..MANY).map(|n| {
            let state = match n % 20 {
                0 => "REVOKING",
                1 => "PENDING",
                _ => "HELD",
            };
            let user = format!("user-{}", n % 100);
            let revocation = match state {
                "REVOKING" => doc! { "revocation": { "reason": "idle", "at": mongodb::bson::DateTime::from_millis(0), "nextTryAt": mongodb::bson::DateTime::from_millis(0) } },
                _ => doc! {},
            };
            let mut change = doc! {
                "state": state, "userId": &user,
                "levels": [format!("pdf|user|{tenant}/{user}"), format!("pdf|tenant|{tenant}")],
            };
            change.extend(revocation);
            holder(n, tenant, change)
        });
        add(&world, holders).await;
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_reads_the_documents_that_it_shows_and_totals_come_from_an_index() {
    let world = crowd().await;
    let views = views(&world, "acme").await;

    // The first page, and its total.
    let query = HolderQuery::default();
    let listed = views.holders(&query, PAGE);
    let (page, ops) = world.profiled(HOLDERS, listed).await;
    let page = page.unwrap();
    assert_eq!((page.entries.len(), page.matching), (50, MANY as u64));
    let [list, count] = examined(&ops)[..] else {
        panic!("{ops:?}");
    };
    assert!(list.0 == 50 && list.1 <= 60, "{list:?}");
    assert!(count.0 == 0 && count.1 <= MANY as i32 + 3, "{count:?}");

    // A later page reads no document of those before it.
    let later = Part { skip: 5000, ..PAGE };
    let (_, ops) = world.profiled(HOLDERS, views.holders(&query, later)).await;
    assert_eq!(examined(&ops)[0].0, 50);

    // Narrowed by what the index has in it.
    let mut narrow = HolderQuery::default();
    narrow.filter.user = Some("user-7".to_owned());
    let (page, ops) = world.profiled(HOLDERS, views.holders(&narrow, PAGE)).await;
    assert_eq!(page.unwrap().matching, 100);
    let [list, count] = examined(&ops)[..] else {
        panic!("{ops:?}");
    };
    assert_eq!((list.0, count.0), (50, 0), "{ops:?}");

    // Those being revoked, in their own order.
    let revoking = HolderQuery {
        order: HolderOrder::NextTry,
        ..HolderQuery::default()
    };
    let (page, ops) = world
        .profiled(HOLDERS, views.holders(&revoking, PAGE))
        .await;
    assert_eq!(page.unwrap().matching, 500);
    assert_eq!(examined(&ops)[0].0, 50, "{ops:?}");

    // The numbers beside the tabs.
    let (totals, ops) = world.profiled(HOLDERS, views.totals()).await;
    assert_eq!(totals.unwrap().held, 9000);
    let [states, failed] = examined(&ops)[..] else {
        panic!("{ops:?}");
    };
    assert_eq!((states.0, failed.0), (0, 0), "{ops:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_for_stays_within_the_tenant() {
    let world = crowd().await;
    let views = views(&world, "acme").await;
    let text = |text: &str| HolderQuery {
        text: Some(text.to_owned()),
        ..HolderQuery::default()
    };
    let mut queries = vec![text("REF-99"), text("umbrella"), text("e")];
    for order in [
        HolderOrder::Newest,
        HolderOrder::Expiry,
        HolderOrder::Resource,
        HolderOrder::Project,
        HolderOrder::User,
        HolderOrder::NextTry,
    ] {
        queries.push(HolderQuery {
            order,
            ..HolderQuery::default()
        });
    }
    queries.push(HolderQuery {
        older_than: Some(Duration::from_secs(60)),
        ..HolderQuery::default()
    });
    for query in queries {
        let (page, ops) = world.profiled(HOLDERS, views.holders(&query, PAGE)).await;
        for holder in page.unwrap().entries {
            assert_eq!(holder.tenant, "acme");
        }
        for (documents, keys) in examined(&ops) {
            let most = MANY as i32 + 60;
            assert!(
                documents <= most && keys <= most,
                "{query:?}: {documents} {keys}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bookings_are_counted_in_the_index_and_in_one_command() {
    let world = crowd().await;
    let now = mongodb::bson::DateTime::from_millis(1_700_000_000_000);
    for tenant in ["acme", "umbrella"] {
        let counters = (0..100).map(|n| {
            doc! {
                "_id": format!("pdf|user|{tenant}/user-{n}"), "resource": "pdf", "level": "user",
                "tenantId": tenant, "userId": format!("user-{n}"), "lease": "pdf", "cap": 200,
                "count": 95, "tokens": (0..95).map(|t| t.to_string()).collect::<Vec<_>>(), "updatedAt": now,
            }
        });
        world.counters().insert_many(counters).await.unwrap();
    }
    let views = views(&world, "acme").await;
    let query = CounterQuery::default();
    let (page, ops) = world.profiled(HOLDERS, views.counters(&query, PAGE)).await;
    let page = page.unwrap();
    assert_eq!((page.entries.len(), page.matching), (50, 100));
    let [bookings, unsettled] = examined(&ops)[..] else {
        panic!("{ops:?}");
    };
    assert_eq!(bookings.0, 0, "documents examined to count bookings");
    // What is being acquired or revoked is looked at one by one.
    assert!(unsettled.0 <= 1000, "{unsettled:?}");
    let (_, ops) = world.profiled(COUNTERS, views.counters(&query, PAGE)).await;
    for (documents, keys) in examined(&ops) {
        assert!(
            documents <= 100 && keys <= 101,
            "another tenant's are not looked at"
        );
    }
}
