//! What an acquisition books, and what it refuses.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_shared::definition::{DocumentAddress, InlineDefinition};
use lease_shared::{
    AcquireError, CheckError, LeaseRef, LeaseRequest, LeaseType, Level, Phase, PodId, Release,
    Tenancy,
};
use mongodb::bson::{Document, doc};
use test_mongo::eventually;

use crate::support::{World, busy, lease_type, reached, request, request_of, token, waiting};

#[tokio::test(flavor = "multi_thread")]
async fn payload_that_nobody_could_read_back_is_refused() {
    let world = World::new().await;
    world
        .define("pdf", "levels: { user: 1 }\nttlSeconds: 60")
        .await;
    let nested = |depth: usize| (1..depth).fold(doc! {}, |inner, _| doc! { "in": inner });
    let with = |depth| {
        LeaseRequest::builder()
            .lease_type(lease_type("soft"))
            .lease(LeaseRef::named("pdf").unwrap())
            .tenancy(Tenancy::new("acme", "thesis", "ada").unwrap())
            .holder_ref("deep")
            .payload(nested(depth))
            .build()
    };
    let refused = world.leases.acquire(with(34)).await;
    assert!(
        matches!(refused, Err(AcquireError::Invalid(_))),
        "{refused:?}"
    );
    assert!(world.all_holders().await.is_empty());
    let lease = world.leases.acquire(with(33)).await.unwrap();
    let refused = lease.update_payload(nested(34)).await;
    assert!(
        matches!(refused, Err(CheckError::Unavailable(_))),
        "{refused:?}"
    );
    lease.update_payload(nested(33)).await.unwrap();
    lease.check().await.unwrap();
    let views = world.leases.views();
    let token = lease.token().unwrap();
    assert!(views.holder(token).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_capped_level_is_booked_narrow_to_wide_and_given_back() {
    let world = World::new().await;
    world
        .define(
            "pdf",
            "levels: { global: 6, tenant: 3, project: 2, user: 1 }",
        )
        .await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let keys = [
        "pdf|user|acme/ada",
        "pdf|project|acme/thesis",
        "pdf|tenant|acme",
        "pdf|global|",
    ];
    let expected: BTreeMap<String, usize> = keys.iter().map(|key| ((*key).to_owned(), 1)).collect();
    assert_eq!(world.in_use().await, expected);
    let holder = &world.all_holders().await[0];
    assert_eq!(holder.get_str("state").unwrap(), "HELD");
    let levels: Vec<_> = holder
        .get_array("levels")
        .unwrap()
        .iter()
        .filter_map(|key| key.as_str())
        .collect();
    assert_eq!(levels, keys);
    world.assert_counters_equal_holders().await;

    assert_eq!(lease.release().await.unwrap(), Release::Released);
    world.leases.close().await;
    assert_eq!(world.all_holders().await.len(), 0);
    assert!(world.in_use().await.values().all(|slots| *slots == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_level_binds_and_is_named() {
    for (body, level, other) in [
        (
            "levels: { user: 1, global: 9 }",
            Level::User,
            ("acme", "thesis", "ada"),
        ),
        (
            "levels: { user: 9, project: 1 }",
            Level::Project,
            ("acme", "thesis", "bob"),
        ),
        (
            "levels: { tenant: 1, project: 9 }",
            Level::Tenant,
            ("acme", "other", "bob"),
        ),
        (
            "levels: { global: 1, tenant: 9 }",
            Level::Global,
            ("umbrella", "x", "y"),
        ),
    ] {
        let world = World::new().await;
        world.define("pdf", body).await;
        let held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
        let (tenant, project, user) = other;
        let other = Tenancy::new(tenant, project, user).unwrap();
        let refused = busy(
            world
                .leases
                .acquire(request_of("pdf", &other, Duration::ZERO))
                .await,
        );
        assert_eq!(
            (refused.level, refused.in_use, refused.cap),
            (level, 1, 1),
            "{body}"
        );
        let oldest = refused.oldest.unwrap().identity;
        let own_tenant = tenant == "acme";
        let named = own_tenant.then(|| token(&held));
        assert_eq!(oldest.map(|oldest| oldest.token), named, "{body}");
        world.leases.close().await;
        world.assert_counters_equal_holders().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_below_a_full_one_are_free_again_at_once() {
    let world = World::new().await;
    world
        .define("pdf", "levels: { user: 1, project: 1, global: 1 }")
        .await;
    let _held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let other = Tenancy::new("umbrella", "x", "y").unwrap();
    assert_eq!(
        busy(
            world
                .leases
                .acquire(request_of("pdf", &other, Duration::ZERO))
                .await
        )
        .level,
        Level::Global
    );
    let in_use = world.in_use().await;
    assert_eq!(in_use["pdf|user|umbrella/y"], 0);
    assert_eq!(in_use["pdf|project|umbrella/x"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_use_by_64_racers_fills_the_cap_without_a_false_busy() {
    for cap in [1_usize, 2, 5, 64] {
        let world = World::new().await;
        world
            .define("pdf", &format!("levels: {{ global: {cap} }}"))
            .await;
        let second = world.another_service().await;
        let racers = (0..64).map(|n| {
            let leases = if n % 2 == 0 {
                world.leases.clone()
            } else {
                second.clone()
            };
            tokio::spawn(async move { leases.acquire(request("pdf", "ada")).await })
        });
        let racers: Vec<_> = racers.collect();
        let mut held = Vec::new();
        for racer in racers {
            match racer.await.unwrap() {
                Ok(lease) => held.push(lease),
                Err(AcquireError::Busy(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(held.len(), cap);
        world.leases.close().await;
        second.close().await;
        assert_eq!(world.in_use().await["pdf|global|"], cap);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_without_caps_and_no_definition_at_all_differ() {
    let world = World::new().await;
    world.define("free", "ttlSeconds: 5").await;
    let noop = world.leases.acquire(request("free", "ada")).await.unwrap();
    assert!(noop.is_noop());
    assert_eq!(noop.release().await.unwrap(), Release::Noop);
    let error = world
        .leases
        .acquire(request("fre", "ada"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "LEASE_UNDEFINED");
    assert!(error.to_string().contains("fre"), "{error}");
    assert_eq!(world.all_holders().await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_layer_fails_the_acquire_and_names_the_place() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 6 }").await;
    let project = DocumentAddress::lease("acme", "thesis", &"pdf".parse().unwrap()).unwrap();
    let broken = "name: pdf\nlevels:\n  user: six\n";
    world
        .leases
        .definitions()
        .put(&project, broken)
        .await
        .unwrap();
    let error = world
        .leases
        .acquire(request("pdf", "ada"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "LEASE_UNAVAILABLE");
    let text = chain(&error);
    for part in [
        "acme/thesis",
        "_vance/config/lease/pdf.yaml",
        "3",
        "levels.user",
        "six",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // Nothing is remembered of the broken state.
    world
        .leases
        .definitions()
        .put(&project, "name: pdf\nlevels: { user: 1 }\n")
        .await
        .unwrap();
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    assert_eq!(world.in_use().await.len(), 2, "{:?}", lease.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_succeed_is_refused_before_any_traffic() {
    let world = World::new().await;
    let base = || {
        LeaseRequest::builder()
            .lease(LeaseRef::named("none").unwrap())
            .tenancy(Tenancy::new("a", "b", "c").unwrap())
    };
    let unknown = base().lease_type(lease_type("nobody")).build();
    assert_eq!(
        world.leases.acquire(unknown).await.unwrap_err().code(),
        "LEASE_TYPE_UNKNOWN"
    );
    let bound = base()
        .lease_type(lease_type("soft"))
        .pod_bound(true)
        .build();
    assert_eq!(
        world.leases.acquire(bound).await.unwrap_err().code(),
        "LEASE_INVALID"
    );
    let day = Duration::from_secs(86_401);
    let long = base().lease_type(lease_type("soft")).wait(day).build();
    let error = world.leases.acquire(long).await.unwrap_err();
    assert!(
        error.code() == "LEASE_INVALID" && error.to_string().contains("86400"),
        "{error}"
    );
    let named = base()
        .lease_type(LeaseType::command())
        .holder_ref("x".repeat(257))
        .build();
    assert_eq!(
        world.leases.acquire(named).await.unwrap_err().code(),
        "LEASE_INVALID"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_data_and_stay_apart() {
    let world = World::new().await;
    world
        .define("pdf", "levels: { user: 1, project: 1, tenant: 1 }")
        .await;
    let names = [
        "|",
        "/",
        "%",
        "*",
        ".",
        "..",
        "$ttlSeconds",
        "$$NOW",
        "__proto__",
        "\u{1F600}",
        "a/b",
        "a|user|b",
        "a%2Fb",
    ];
    let mut held = Vec::new();
    for name in names {
        let tenancy = Tenancy::new(name, name, name).unwrap();
        held.push(
            world
                .leases
                .acquire(request_of("pdf", &tenancy, Duration::ZERO))
                .await
                .unwrap(),
        );
        let refused = busy(
            world
                .leases
                .acquire(request_of("pdf", &tenancy, Duration::ZERO))
                .await,
        );
        assert_eq!(refused.level, Level::User);
        let theirs = doc! { "tenantId": { "$eq": name }, "userId": { "$eq": name } };
        assert_eq!(
            world.holders().count_documents(theirs).await.unwrap(),
            1,
            "{name}"
        );
    }
    world.leases.close().await;
    assert_eq!(world.in_use().await.len(), names.len() * 3);
    world.assert_counters_equal_holders().await;
    assert!("x".repeat(129).parse::<PodId>().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_resource_names_its_own_counters_and_never_the_global_one() {
    let world = World::new().await;
    world
        .define("pdf", "resource: render\nlevels: { global: 1, tenant: 5 }")
        .await;
    let tenant = DocumentAddress::lease("acme", "_tenant", &"pdf".parse().unwrap()).unwrap();
    let escape = "name: pdf\nresource: private\nlevels: { user: 3 }\n";
    world
        .leases
        .definitions()
        .put(&tenant, escape)
        .await
        .unwrap();
    let _held = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let keys: Vec<String> = world.in_use().await.into_keys().collect();
    assert_eq!(
        keys,
        [
            "private|tenant|acme",
            "private|user|acme/ada",
            "render|global|"
        ]
    );
    let other = Tenancy::new("umbrella", "x", "y").unwrap();
    assert_eq!(
        busy(
            world
                .leases
                .acquire(request_of("pdf", &other, Duration::ZERO))
                .await
        )
        .level,
        Level::Global
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inline_definition_counts_on_a_private_resource() {
    let world = World::new().await;
    let inline: InlineDefinition = mongodb::bson::deserialize_from_document(
        doc! { "name": "browser", "levels": { "user": 1 } },
    )
    .unwrap();
    let ask = |project: &str| {
        LeaseRequest::builder()
            .lease_type(lease_type("soft"))
            .lease(LeaseRef::inline(inline.clone()))
            .tenancy(Tenancy::new("acme", project, "ada").unwrap())
            .wait(Duration::ZERO)
            .build()
    };
    let _first = world.leases.acquire(ask("thesis")).await.unwrap();
    let refused = busy(world.leases.acquire(ask("thesis")).await);
    assert_eq!(refused.resource.as_str(), "mcp-inline:acme/thesis/browser");
    let _other_project = world.leases.acquire(ask("other")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_cap_moves_no_lease_that_is_held() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 2 }").await;
    let first = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let second = world.leases.acquire(request("pdf", "bob")).await.unwrap();
    world.define("pdf", "levels: { global: 1, user: 1 }").await;
    assert_eq!(world.in_use().await["pdf|global|"], 2);
    first.check().await.unwrap();
    first.release().await.unwrap();
    world.leases.close().await;
    // One is still in use, so the lowered cap is full; the level that is new counts only what comes after it.
    assert_eq!(
        busy(world.leases.acquire(request("pdf", "bob")).await).level,
        Level::Global
    );
    let counters = world
        .leases
        .views()
        .counters(&Default::default())
        .await
        .unwrap()
        .entries;
    let global = counters
        .iter()
        .find(|counter| counter.level == Level::Global)
        .unwrap();
    assert_eq!((global.count, global.booked, global.drift), (1, 1, 0));
    let user = counters
        .iter()
        .find(|counter| counter.user.as_deref() == Some("bob"))
        .unwrap();
    assert_eq!(
        (user.count, user.unbooked),
        (0, 1),
        "bob's older lease shows as unbooked"
    );
    second.release().await.unwrap();
    world.leases.close().await;
    world.leases.acquire(request("pdf", "bob")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_an_acquire_at_any_round_trip_leaves_nothing() {
    for step in ["open holder", "book counters", "mark held"] {
        for phase in [lease_shared::Phase::Before, lease_shared::Phase::After] {
            let world = World::new().await;
            world
                .define(
                    "pdf",
                    "levels: { user: 1, project: 1, tenant: 1, global: 1 }",
                )
                .await;
            let gate = world.leases.failpoints().pause(step, phase);
            let leases = world.leases.clone();
            let caller = tokio::spawn(async move { leases.acquire(request("pdf", "ada")).await });
            gate.reached().await;
            caller.abort();
            assert!(caller.await.unwrap_err().is_cancelled());
            gate.open();
            eventually(
                "everything is given back",
                Duration::from_secs(10),
                async || {
                    Ok(world.all_holders().await.is_empty()
                        && world.in_use().await.values().all(|slots| *slots == 0))
                },
            )
            .await
            .unwrap_or_else(|error| panic!("{step} {phase:?}: {error}"));
            // The attempt may only now be on its way.
            let next = waiting("pdf", "ada", Duration::from_secs(10));
            world.leases.acquire(next).await.unwrap();
        }
    }
}

/// Drops the acquire of `ada` when it comes to a point of a world in which it finds level `global` full.
async fn dropped_at_a_full_level(
    step: &'static str,
    phase: lease_shared::Phase,
    full: impl AsyncFnOnce(&World),
) {
    let world = World::new().await;
    let body = "levels: { user: 1, project: 2, tenant: 2, global: 1 }\nttlSeconds: 60";
    world.define("pdf", body).await;
    full(&world).await;
    let leases = world.another_service().await;
    let gate = leases.failpoints().pause(step, phase);
    let acquire = leases.clone();
    let caller = tokio::spawn(async move { acquire.acquire(request("pdf", "ada")).await });
    reached(&gate, step).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    gate.open();
    leases.close().await;
    let free = async || {
        let of_ada = doc! { "userId": "ada" };
        let in_use = world.in_use().await;
        let booked = in_use.get("pdf|user|acme/ada").copied().unwrap_or(0);
        let held = world.holders().find_one(of_ada).await?;
        Ok(held.is_none() && booked == 0)
    };
    let given_back = eventually("it is given back", Duration::from_secs(10), free).await;
    given_back.unwrap_or_else(|error| panic!("{step} {phase:?}: {error}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_an_acquire_while_it_rolls_back_or_looks_at_a_full_counter_leaves_nothing() {
    use lease_shared::Phase::{After, Before};
    for phase in [Before, After] {
        for step in ["take holder", "unbook", "read counter", "read holders"] {
            dropped_at_a_full_level(step, phase, async |world| {
                let held = world.leases.acquire(request("pdf", "bob")).await;
                held.unwrap().into_token();
            })
            .await;
        }
        dropped_at_a_full_level("unbook orphans", phase, async |world| {
            let held = world.leases.acquire(request("pdf", "bob")).await;
            held.unwrap().into_token();
            world.holders().delete_many(doc! {}).await.unwrap();
        })
        .await;
        dropped_at_a_full_level("revoke holder", phase, async |world| {
            let held = world.leases.acquire(request("pdf", "bob")).await;
            let idle = held.unwrap().into_token().unwrap();
            world.age(&idle, Duration::from_secs(61)).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_lease_is_released_in_the_background() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 1 }").await;
    drop(world.leases.acquire(request("pdf", "ada")).await.unwrap());
    world.leases.close().await;
    assert_eq!(world.all_holders().await.len(), 0);
    let result = world
        .leases
        .with_lease(request("pdf", "ada"), async |lease| {
            lease.check().await.is_ok()
        })
        .await;
    assert!(result.unwrap());
    world.leases.close().await;
    assert_eq!(world.in_use().await["pdf|global|"], 0);
    let kept = world
        .leases
        .acquire(request("pdf", "ada"))
        .await
        .unwrap()
        .into_token()
        .unwrap();
    world.leases.close().await;
    world.leases.check_token(&kept).await.unwrap();
    assert_eq!(
        world.leases.release_token(&kept).await.unwrap(),
        Release::Released
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_index_deletes_documents_by_age() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 1 }").await;
    let _lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    for name in world
        .mongo
        .database()
        .list_collection_names()
        .await
        .unwrap()
    {
        let collection = world
            .mongo
            .database()
            .collection::<mongodb::bson::Document>(&name);
        let indexes = collection.list_indexes().await.unwrap();
        let indexes: Vec<mongodb::IndexModel> = futures_util::TryStreamExt::try_collect(indexes)
            .await
            .unwrap();
        let ages = |index: &&mongodb::IndexModel| {
            index
                .options
                .as_ref()
                .is_some_and(|o| o.expire_after.is_some())
        };
        assert_eq!(indexes.iter().filter(ages).count(), 0, "{name}");
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_starts_while_all_slots_are_taken_resets_nothing() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 2 }").await;
    let first = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let second = world.leases.acquire(request("pdf", "bob")).await.unwrap();
    let before = world.all_counters().await;
    let other = world.another_service().await;
    assert_eq!(world.all_counters().await, before);
    assert_eq!(busy(other.acquire(request("pdf", "eve")).await).in_use, 2);
    first.check().await.unwrap();
    second.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_written_in_any_layer_leaves_what_is_held_as_it_is() {
    let world = World::new().await;
    world.define("pdf", "levels: { user: 1, global: 2 }").await;
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    let (holders, counters) = (world.all_holders().await, world.all_counters().await);
    for (tenant, project) in [
        ("_vance", "_tenant"),
        ("acme", "_tenant"),
        ("acme", "thesis"),
    ] {
        let address = DocumentAddress::lease(tenant, project, &"pdf".parse().unwrap()).unwrap();
        let definitions = world.leases.definitions();
        let text = "name: pdf\nlevels: { user: 3 }\nttlSeconds: 9\n";
        definitions.put(&address, text).await.unwrap();
        definitions.remove(&address).await.unwrap();
        assert_eq!(world.all_holders().await, holders, "{tenant}/{project}");
        assert_eq!(world.all_counters().await, counters, "{tenant}/{project}");
    }
    lease.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_payload_of_a_request_is_stored_to_the_letter_before_anything_is_held() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 1 }").await;
    let payload = doc! { "a": "$ttlSeconds", "$b": { "$add": [1, 2] }, "c.d": ["$$NOW"] };
    let with_payload = |payload: Document| {
        LeaseRequest::builder()
            .lease_type(lease_type("soft"))
            .lease(LeaseRef::named("pdf").unwrap())
            .tenancy(Tenancy::new("acme", "thesis", "ada").unwrap())
            .payload(payload)
            .build()
    };
    let gate = world.leases.failpoints().pause("open holder", Phase::After);
    let (leases, request) = (world.leases.clone(), with_payload(payload.clone()));
    let acquire = tokio::spawn(async move { leases.acquire(request).await });
    gate.reached().await;
    let pending = world.all_holders().await.remove(0);
    assert_eq!(pending.get_str("state").unwrap(), "PENDING");
    assert_eq!(pending.get_document("payload").unwrap(), &payload);
    gate.open();
    let lease = acquire.await.unwrap().unwrap();
    world
        .leases
        .revoke(&token(&lease), &Default::default())
        .await
        .unwrap();
    let told = world.listener.revocations.lock().unwrap().remove(0);
    assert_eq!(told.payload, payload);
}
