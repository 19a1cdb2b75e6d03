//! Which leases, in which order.

use std::time::Duration;

use lease_shared::{Filter, HolderOrder, HolderQuery, HolderState, Part, PodId, ViewError};
use mongodb::bson::{DateTime, doc};

use super::{ALL, add, holder, shown, token_of, views};
use crate::support::{World, request_by};

fn refs(page: lease_shared::PartOf<lease_shared::HolderView>) -> Vec<String> {
    page.entries
        .into_iter()
        .map(|holder| holder.holder_ref)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_lease_does_not_exist_whatever_is_asked() {
    let world = World::new().await;
    // Names that would be another's if they were patterns, operators or paths.
    let names = [
        "acme", "acme2", "Acme", ".*", "$ne", "a/b", "100%", "a b", "<script>", "a|b",
    ];
    for (n, tenant) in names.into_iter().enumerate() {
        add(&world, [holder(n, tenant, doc! {})]).await;
    }
    for (n, tenant) in names.into_iter().enumerate() {
        let views = views(&world, tenant).await;
        let page = shown(&views, &HolderQuery::default()).await;
        assert_eq!(page.matching, 1);
        let own = page.entries[0].token.clone();
        assert_eq!(refs(page), [format!("ref-{n}")], "{tenant}");
        assert_eq!(views.totals().await.unwrap().held, 1);
        // A tenant in the filter does not lead elsewhere.
        let elsewhere = HolderQuery {
            filter: Filter {
                tenant: Some("acme2".to_owned()),
                ..Filter::default()
            },
            text: Some("ref".to_owned()),
            ..HolderQuery::default()
        };
        assert_eq!(refs(shown(&views, &elsewhere).await), [format!("ref-{n}")]);
        for other in world.all_holders().await {
            let token = token_of(&other);
            let found = views.holder(&token).await.unwrap();
            assert_eq!(found.is_some(), token == own, "{tenant}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_filter_and_order_gives_what_it_says() {
    let world = World::new().await;
    let long_ago = DateTime::from_millis(0);
    add(
        &world,
        [
            holder(1, "acme", doc! { "resource": "z", "projectId": "p1", "userId": "u3", "ttlSeconds": 30_i64 }),
            holder(2, "acme", doc! { "resource": "y", "projectId": "p2", "userId": "u2", "type": "hard", "pod": "pod-2" }),
            holder(3, "acme", doc! { "resource": "x", "projectId": "p3", "userId": "u1", "state": "PENDING" }),
            holder(4, "acme", doc! { "state": "REVOKING", "revocation": { "reason": "idle", "at": long_ago, "nextTryAt": DateTime::from_millis(5000), "attempts": 1_i64 } }),
            holder(5, "acme", doc! { "state": "REVOKING", "revocation": { "reason": "pod", "at": long_ago, "nextTryAt": DateTime::from_millis(9000), "failed": true } }),
            holder(6, "acme", doc! { "state": "REVOKING", "revocation": { "reason": "pod", "at": long_ago, "nextTryAt": DateTime::from_millis(1000) } }),
        ],
    )
    .await;
    let views = views(&world, "acme").await;
    let by = |filter: Filter| HolderQuery {
        filter,
        ..HolderQuery::default()
    };
    let none = Filter::default;
    let filters = [
        (
            Filter {
                resource: Some("y".into()),
                ..none()
            },
            vec!["ref-2"],
        ),
        (
            Filter {
                project: Some("p1".into()),
                ..none()
            },
            vec!["ref-1"],
        ),
        (
            Filter {
                user: Some("u1".into()),
                ..none()
            },
            vec!["ref-3"],
        ),
        (
            Filter {
                lease_type: Some("hard".into()),
                ..none()
            },
            vec!["ref-2"],
        ),
        (
            Filter {
                pod: Some(PodId::new("pod-2").unwrap()),
                ..none()
            },
            vec!["ref-2"],
        ),
        (
            Filter {
                state: Some(HolderState::Pending),
                ..none()
            },
            vec!["ref-3"],
        ),
        (
            Filter {
                state: Some(HolderState::Held),
                ..none()
            },
            vec!["ref-1", "ref-2"],
        ),
        (
            Filter {
                user: Some("u1".into()),
                resource: Some("y".into()),
                ..none()
            },
            vec![],
        ),
    ];
    for (filter, expected) in filters {
        let page = shown(&views, &by(filter.clone())).await;
        assert_eq!(page.matching as usize, expected.len(), "{filter:?}");
        assert_eq!(refs(page), expected, "{filter:?}");
    }
    let orders = [
        (HolderOrder::Oldest, "123456"),
        (HolderOrder::Newest, "654321"),
        // By when they would be reaped: one lives half a minute only, as does what is being acquired.
        (HolderOrder::Expiry, "132456"),
        (HolderOrder::Resource, "456321"),
        (HolderOrder::Project, "123456"),
        (HolderOrder::User, "456321"),
    ];
    for (order, expected) in orders {
        let query = HolderQuery {
            order,
            ..HolderQuery::default()
        };
        let got: Vec<_> = refs(shown(&views, &query).await);
        let got: String = got.iter().map(|name| &name["ref-".len()..]).collect();
        assert_eq!(got, expected, "{order:?}");
    }
    let revoking = HolderQuery {
        filter: Filter {
            state: Some(HolderState::Revoking),
            ..none()
        },
        order: HolderOrder::NextTry,
        ..HolderQuery::default()
    };
    let expected = ["ref-5", "ref-6", "ref-4"];
    assert_eq!(refs(shown(&views, &revoking).await), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_found_in_every_name_and_its_signs_mean_themselves() {
    let world = World::new().await;
    add(
        &world,
        [
            holder(1, "acme", doc! { "resource": "Bench (1).*" }),
            holder(2, "acme", doc! { "userId": "Grün\\E" }),
            holder(
                3,
                "acme",
                doc! { "projectId": "$where", "pod": "pod-north" },
            ),
            holder(4, "acme", doc! { "lease": "special", "type": "hard" }),
        ],
    )
    .await;
    let views = views(&world, "acme").await;
    let tokens = world.all_holders().await;
    let found = async |text: &str| {
        let query = HolderQuery {
            text: Some(text.to_owned()),
            ..HolderQuery::default()
        };
        refs(shown(&views, &query).await)
    };
    assert_eq!(found("BENCH").await, ["ref-1"]);
    assert_eq!(found("(1).*").await, ["ref-1"]);
    assert_eq!(found(".*").await, ["ref-1"]);
    assert_eq!(found("grÜn\\e").await, ["ref-2"]);
    assert_eq!(found("$where").await, ["ref-3"]);
    assert_eq!(found("north").await, ["ref-3"]);
    assert_eq!(found("special").await, ["ref-4"]);
    assert_eq!(found("hard").await, ["ref-4"]);
    assert_eq!(found("ref-2").await, ["ref-2"]);
    assert_eq!(found(tokens[3].get_str("_id").unwrap()).await, ["ref-4"]);
    assert_eq!(found("nothing").await, [""; 0]);
    assert_eq!(found("acme").await, [""; 0], "the tenant is everybody's");
    for refused in ["a\0b", "a\nb", &"x".repeat(201)] {
        let query = HolderQuery {
            text: Some(refused.to_owned()),
            ..HolderQuery::default()
        };
        let answer = views.holders(&query, ALL).await;
        assert!(matches!(answer, Err(ViewError::Invalid(_))), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn age_counts_from_the_acquire_in_the_servers_time() {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 9, user: 9 }\nttlSeconds: 600")
        .await;
    let lease = world.leases.acquire(request_by("soft", None, "ada")).await;
    let token = lease.unwrap().into_token().unwrap();
    let tenant = world.holder(&token).await.unwrap();
    let views = views(&world, tenant.get_str("tenantId").unwrap()).await;
    let older = |seconds| HolderQuery {
        older_than: Some(Duration::from_secs(seconds)),
        ..HolderQuery::default()
    };
    assert_eq!(shown(&views, &older(3600)).await.matching, 0);
    let earlier = doc! { "$subtract": ["$createdAt", 3_601_000] };
    let update = vec![doc! { "$set": { "createdAt": earlier } }];
    world
        .holders()
        .update_one(doc! { "_id": token.as_str() }, update)
        .await
        .unwrap();
    assert_eq!(shown(&views, &older(3600)).await.matching, 1);
    let huge = Duration::from_secs(u64::MAX);
    let huge = HolderQuery {
        older_than: Some(huge),
        ..HolderQuery::default()
    };
    assert_eq!(shown(&views, &huge).await.matching, 0);
    // The global level belongs to no tenant.
    let page = shown(&views, &HolderQuery::default()).await;
    assert_eq!(
        page.entries[0].levels.len(),
        1,
        "{:?}",
        page.entries[0].levels
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_neither_overlap_nor_leave_anything_out() {
    let world = World::new().await;
    // Many that were acquired in one moment.
    add(
        &world,
        (0..95).map(|n| holder(n / 10, "acme", doc! { "holderRef": n.to_string() })),
    )
    .await;
    let views = views(&world, "acme").await;
    for order in [
        HolderOrder::Oldest,
        HolderOrder::Newest,
        HolderOrder::Expiry,
        HolderOrder::User,
    ] {
        let query = HolderQuery {
            order,
            ..HolderQuery::default()
        };
        let mut seen = Vec::new();
        for page in 0..4 {
            let part = Part {
                skip: page * 30,
                limit: 30,
            };
            let page = views.holders(&query, part).await.unwrap();
            assert_eq!(page.matching, 95);
            seen.extend(refs(page));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 95, "{order:?}");
    }
    let beyond = Part {
        skip: u32::MAX,
        limit: 30,
    };
    let beyond = views
        .holders(&HolderQuery::default(), beyond)
        .await
        .unwrap();
    assert_eq!((beyond.entries.len(), beyond.matching), (0, 95));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_document_hides_no_other_in_any_order() {
    let world = World::new().await;
    // Deeper than is read; a good deal more would be too deep for this process itself.
    let mut deep = doc! {};
    for _ in 0..50 {
        deep = doc! { "in": deep };
    }
    add(
        &world,
        [
            holder(1, "acme", doc! {}),
            holder(2, "acme", doc! { "ttlSeconds": "soon" }),
            holder(3, "acme", doc! { "lastSeenAt": "never" }),
            holder(4, "acme", doc! { "levels": 7 }),
            holder(5, "acme", doc! { "payload": deep }),
            holder(6, "acme", doc! { "lastSeenAt": DateTime::MAX }),
        ],
    )
    .await;
    let views = views(&world, "acme").await;
    for order in [HolderOrder::Oldest, HolderOrder::Expiry] {
        let query = HolderQuery {
            order,
            ..HolderQuery::default()
        };
        let page = shown(&views, &query).await;
        assert_eq!((page.unreadable.len(), page.matching), (4, 6), "{order:?}");
        assert_eq!(refs(page), ["ref-1", "ref-6"]);
    }
}
