//! What a tenant sees of its counters.

use lease_shared::{CounterQuery, Level, TenantCounter};
use mongodb::bson::{DateTime, Document, doc};

use super::{ALL, add, holder, views};
use crate::support::World;

fn counter(key: &str, tenant: &str, cap: i64, tokens: usize, change: Document) -> Document {
    let tokens: Vec<_> = (0..tokens).map(|n| format!("{key}{n}")).collect();
    let mut counter = doc! {
        "_id": key, "resource": "pdf", "level": "tenant", "tenantId": tenant, "lease": "pdf", "cap": cap,
        "count": tokens.len() as i64, "tokens": tokens, "updatedAt": DateTime::from_millis(0),
    };
    counter.extend(change);
    counter
}

async fn entries(world: &World, query: &CounterQuery) -> Vec<TenantCounter> {
    let views = views(world, "acme").await;
    views.counters(query, ALL).await.unwrap().entries
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_says_what_is_in_use_what_waits_for_its_clean_up_and_what_drifts() {
    let world = World::new().await;
    let user = doc! { "level": "user", "userId": "ada" };
    world
        .counters()
        .insert_many([
            counter("pdf|tenant|acme", "acme", 5, 4, doc! {}),
            counter("pdf|user|acme/ada", "acme", 1, 2, user),
            counter("pdf|tenant|umbrella", "umbrella", 1, 1, doc! {}),
            doc! { "_id": "pdf|global|", "resource": "pdf", "level": "global", "lease": "pdf", "cap": 1_i64,
                   "count": 0_i64, "tokens": [], "updatedAt": DateTime::from_millis(0) },
            doc! { "_id": "pdf|tenant|broken", "tenantId": "acme", "resource": "pdf", "cap": "many" },
        ])
        .await
        .unwrap();
    let revoking = |slot: &str| {
        let at = DateTime::from_millis(0);
        doc! { "state": "REVOKING", "slotReturn": slot, "revocation": { "reason": "idle", "at": at } }
    };
    add(
        &world,
        [
            holder(1, "acme", doc! {}),
            holder(2, "acme", revoking("AFTER_CLEANUP")),
            // Neither of these books for certain: the second may be about to, or just have.
            holder(3, "acme", revoking("AT_ONCE")),
            holder(4, "acme", doc! { "state": "PENDING" }),
        ],
    )
    .await;
    let views = views(&world, "acme").await;
    let page = views.counters(&CounterQuery::default(), ALL).await.unwrap();
    assert_eq!((page.matching, page.unreadable.len()), (3, 1));
    let keys: Vec<_> = page
        .entries
        .iter()
        .map(|counter| counter.key.as_str())
        .collect();
    assert_eq!(
        keys,
        ["pdf|user|acme/ada", "pdf|tenant|acme"],
        "least room first"
    );
    let [ada, tenant] = &page.entries[..] else {
        panic!("{page:?}");
    };
    let of = |counter: &TenantCounter| {
        (
            counter.count,
            counter.cap,
            counter.booked,
            counter.awaiting_cleanup,
            counter.drift,
        )
    };
    // One of its four is explained by the lease that is being acquired.
    assert_eq!((of(tenant), tenant.pending), ((4, 5, 2, 1, 1), 1));
    assert_eq!(of(ada), (2, 1, 0, 0, 2));
    assert!(ada.is_over_cap() && ada.is_full() && !tenant.is_over_cap() && !tenant.is_full());
    assert_eq!(views.counter_count().await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_booked_is_booked_and_nothing_drifts() {
    let world = World::new().await;
    world
        .define(
            "pdf",
            "levels: { global: 9, tenant: 5, project: 4, user: 3 }\nttlSeconds: 600",
        )
        .await;
    let request = || crate::support::request_by("soft", None, "ada");
    let lease = world.leases.acquire(request()).await.unwrap();
    let tenant = world.all_holders().await.remove(0);
    let tenant = tenant.get_str("tenantId").unwrap().to_owned();
    let views = views(&world, &tenant).await;
    let page = views.counters(&CounterQuery::default(), ALL).await.unwrap();
    let levels: Vec<_> = page
        .entries
        .iter()
        .map(|counter| (counter.level, counter.cap))
        .collect();
    assert_eq!(
        levels,
        [(Level::User, 3), (Level::Project, 4), (Level::Tenant, 5)]
    );
    for counter in &page.entries {
        assert_eq!((counter.count, counter.booked, counter.drift), (1, 1, 0));
    }
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_narrowed_by_what_they_count() {
    let world = World::new().await;
    let user = |user: &str| doc! { "level": "user", "userId": user };
    let project = doc! { "level": "project", "projectId": "thesis", "lease": "Special" };
    world
        .counters()
        .insert_many([
            counter("a", "acme", 2, 1, doc! { "resource": "bench" }),
            counter("b", "acme", 2, 1, user("ada")),
            counter("c", "acme", 2, 1, user("bob")),
            counter("d", "acme", 2, 1, project),
        ])
        .await
        .unwrap();
    let none = CounterQuery::default;
    let table = [
        (
            CounterQuery {
                resource: Some("bench".into()),
                ..none()
            },
            "a",
        ),
        (
            CounterQuery {
                level: Some(Level::User),
                ..none()
            },
            "bc",
        ),
        (
            CounterQuery {
                user: Some("bob".into()),
                ..none()
            },
            "c",
        ),
        (
            CounterQuery {
                project: Some("thesis".into()),
                ..none()
            },
            "d",
        ),
        (
            CounterQuery {
                text: Some("special".into()),
                ..none()
            },
            "d",
        ),
        (
            CounterQuery {
                level: Some(Level::Global),
                ..none()
            },
            "",
        ),
    ];
    for (query, expected) in table {
        let keys: String = entries(&world, &query)
            .await
            .into_iter()
            .map(|counter| counter.key)
            .collect();
        assert_eq!(keys, expected, "{query:?}");
    }
}
