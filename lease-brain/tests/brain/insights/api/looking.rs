//! What is seen.

use lease_shared::Decision;
use mongodb::bson::doc;
use reqwest::Method;
use serde_json::Value;

use super::super::World;
use super::refs;
use crate::fleet::{BENCH, token};

#[tokio::test(flavor = "multi_thread")]
async fn each_tenant_sees_its_own_leases_and_counters_whatever_it_is_called() {
    let world = World::with_secret(&[]).await;
    world
        .fleet
        .define(
            BENCH,
            "levels: { user: 1, tenant: 5, global: 90 }\nttlSeconds: 600",
        )
        .await;
    let tenants = [
        "acme", "a/b", "100%", "a b", "<script>", "me", "live", "$ne",
    ];
    for tenant in tenants {
        world.held(tenant, &format!("user of {tenant}")).await;
    }
    for tenant in tenants {
        let admin = world.admin(tenant, "boss");
        let own = format!("user of {tenant}'s job");
        let holders = admin.get("holders").await;
        assert_eq!(refs(&holders), [own.as_str()]);
        assert_eq!(holders["total"], 1);
        let holder = &holders["entries"][0];
        assert_eq!(holder["tenant"], tenant);
        let counters = admin.get("counters").await;
        let levels = counters["entries"].as_array().unwrap();
        let mut levels: Vec<_> = levels
            .iter()
            .map(|counter| counter["level"].as_str().unwrap())
            .collect();
        levels.sort_unstable();
        assert_eq!(levels, ["tenant", "user"]);
        let overview = admin.get("overview").await;
        assert_eq!(overview["totals"]["held"], 1);
        assert_eq!(overview["counters"], 2);
        let path = format!("holders/{}", holder["token"].as_str().unwrap());
        let detail = admin.get(&path).await;
        assert_eq!(detail["lease"]["holderRef"], own);
        // The ceiling that all share is nobody's to see.
        for seen in [holders, counters, overview, detail] {
            assert!(!seen.to_string().contains("global"), "{seen}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_lease_is_answered_as_one_that_never_was() {
    let world = World::with_secret(&[]).await;
    let theirs = world.held("umbrella", "eve").await;
    let never = "0".repeat(32);
    let admin = world.admin("acme", "boss");
    let before = world.fleet.holder(&theirs).await;
    for revoked in [false, true] {
        for (method, below, body) in [
            (Method::GET, "holders/TOKEN", None),
            (
                Method::POST,
                "holders/TOKEN/revoke",
                Some(serde_json::json!({ "state": "HELD", "reason": "mine now" })),
            ),
            (
                Method::POST,
                "holders/TOKEN/revoke",
                Some(serde_json::json!({ "state": "HELD" })),
            ),
            (Method::POST, "revocations/TOKEN/retry", None),
        ] {
            let ask = async |token: &str| {
                let below = below.replace("TOKEN", token);
                let (status, said) = admin.call(method.clone(), &below, body.clone()).await;
                (status, said.to_string().replace(token, "TOKEN"))
            };
            let said = ask(theirs.as_str()).await;
            assert_eq!(said, ask(&never).await, "{below}");
            assert_eq!(said.0, 404, "{below}: {}", said.1);
        }
        let (status, said) = admin
            .post(
                "holders/revoke",
                serde_json::json!({ "reason": "all", "holders": [{ "token": theirs, "state": "HELD" }] }),
            )
            .await;
        assert_eq!(
            (status, &said["results"][0]["outcome"]),
            (200, &"noSuchLease".into())
        );
        if !revoked {
            assert_eq!(world.fleet.holder(&theirs).await, before);
            world.fleet.revoke(&theirs).await;
        }
    }
    let lists = [
        "holders",
        "holders?user=eve",
        "holders?q=eve",
        "revocations",
        "counters",
    ];
    for list in lists {
        assert_eq!(admin.get(list).await["total"], 0, "{list}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_narrowed_sorted_and_paged_by_the_server() {
    let world = World::with_secret(&[]).await;
    for user in ["ada", "bob", "cyd"] {
        world.held("acme", user).await;
    }
    let admin = world.admin("acme", "boss");
    for (query, expected) in [
        ("", vec!["ada's job", "bob's job", "cyd's job"]),
        ("?sort=newest", vec!["cyd's job", "bob's job", "ada's job"]),
        ("?user=bob", vec!["bob's job"]),
        (
            "?user=&q=&state=&page=",
            vec!["ada's job", "bob's job", "cyd's job"],
        ),
        ("?q=CYD", vec!["cyd's job"]),
        ("?q=bob%27s%20job", vec!["bob's job"]),
        ("?state=PENDING", vec![]),
        ("?olderThan=1h", vec![]),
        ("?perPage=2&page=2", vec!["cyd's job"]),
        ("?perPage=2&page=3", vec![]),
        (
            "?type=webhook&project=thesis&resource=bench&perPage=1",
            vec!["ada's job"],
        ),
    ] {
        let list = admin.get(&format!("holders{query}")).await;
        assert_eq!(refs(&list), expected, "{query}");
    }
    let page = admin.get("holders?perPage=2&page=2").await;
    assert_eq!(
        (&page["total"], &page["page"], &page["perPage"]),
        (&3.into(), &2.into(), &2.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_lease_says_what_happened_to_it_and_what_a_revocation_would_do() {
    let world = World::with_secret(&[]).await;
    let payload = doc! { "url": "http://127.0.0.1:1/off", "sessionId": "s-e-c-r-e-t", "port": 7 };
    let lease = world.lease("acme", "ada", payload).await;
    lease.check().await.unwrap();
    let token = token(lease);
    let admin = world.admin("acme", "boss");
    let detail = admin.get(&format!("holders/{token}")).await;
    assert!(!detail.to_string().contains("s-e-c-r-e-t"));
    let payload: Vec<(&str, &Value)> = detail["payload"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| (field["name"].as_str().unwrap(), &field["value"]))
        .collect();
    let url = "http://127.0.0.1:1/off".into();
    assert_eq!(
        payload,
        [
            ("url", &url),
            ("sessionId", &Value::Null),
            ("port", &"7".into())
        ]
    );
    let whats = |detail: &Value| -> Vec<String> {
        let moments = detail["moments"].as_array().unwrap();
        let whats = moments
            .iter()
            .map(|moment| moment["what"].as_str().unwrap());
        whats.map(str::to_owned).collect()
    };
    assert_eq!(
        whats(&detail),
        [
            "its acquire began",
            "it was acquired",
            "it was last used, once",
            "it expires, unless it is used before"
        ]
    );
    let words = detail["onRevocation"].as_str().unwrap();
    assert!(words.starts_with("its handler runs in a brain"), "{words}");

    let decision = Decision {
        by: Some("cli".to_owned()),
        note: Some("too <long>".to_owned()),
        ..Decision::default()
    };
    world.fleet.leases.revoke(&token, &decision).await.unwrap();
    let detail = admin.get(&format!("holders/{token}")).await;
    let revoked = "it was revoked: an operator revoked it (cli), saying: too <long>";
    assert!(whats(&detail).contains(&revoked.to_owned()), "{detail}");
    let listed = admin.get("revocations").await;
    assert_eq!(listed["entries"][0]["cleanup"]["by"], "cli");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_has_what_is_full_what_is_old_and_what_failed() {
    let world = World::with_secret(&[]).await;
    let old = world.held("acme", "ada").await;
    world.held("acme", "bob").await;
    let revoked = world.held("acme", "cyd").await;
    world.fleet.revoke(&revoked).await;
    let overview = world.admin("acme", "boss").get("overview").await;
    let totals = &overview["totals"];
    assert_eq!(
        (&totals["held"], &totals["revoking"]),
        (&2.into(), &1.into())
    );
    assert_eq!(overview["counters"], 3);
    let fullest = overview["fullest"].as_array().unwrap();
    assert_eq!(fullest.len(), 3);
    let full = |counter: &Value| (counter["count"].clone(), counter["cap"].clone());
    assert!(
        fullest
            .iter()
            .all(|counter| full(counter) == (1.into(), 1.into()))
    );
    assert_eq!(overview["oldest"][0]["token"], old.as_str());
    assert_eq!(overview["revoking"][0]["token"], revoked.as_str());
    test_mongo::eventually("it has swept", crate::fleet::SOON, async || {
        let overview = world.admin("acme", "boss").get("overview").await;
        Ok(overview["lastSweepSeconds"].is_u64())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_cannot_be_read_is_said_to_be_that() {
    let world = World::with_secret(&[]).await;
    let broken = world.held("acme", "ada").await;
    world.held("acme", "bob").await;
    let its = doc! { "_id": broken.as_str() };
    let change = doc! { "$set": { "levels": 7 } };
    world.fleet.holders().update_one(its, change).await.unwrap();
    let admin = world.admin("acme", "boss");
    let (status, said) = admin
        .call(Method::GET, &format!("holders/{broken}"), None)
        .await;
    assert_eq!((status, &said["code"]), (422, &"LEASE_INVALID".into()));
    // Deep enough for a reader to run out of stack, which would end the brain.
    let deep = world.held("acme", "cyd").await;
    let its = || doc! { "_id": deep.as_str() };
    let holders = world.fleet.holders();
    for _ in 0..95 {
        // Level by level: this process has no stack for it either.
        let wrapped = doc! { "$set": { "payload": { "$mergeObjects": [{ "in": "$payload" }] } } };
        let wrapping = holders.update_one(its(), vec![wrapped]);
        wrapping.await.unwrap();
    }
    let idle = mongodb::bson::DateTime::from_millis(0);
    let change = doc! { "$set": { "lastSeenAt": idle } };
    holders.update_one(its(), change).await.unwrap();
    let list = admin.get("holders").await;
    assert_eq!(refs(&list), ["bob's job"]);
    let unreadable = list["unreadable"].as_array().unwrap().len();
    assert_eq!((&list["total"], unreadable), (&3.into(), 2));
    test_mongo::eventually(
        "its clean-up waits for an operator",
        crate::fleet::SOON,
        async || Ok(admin.get("overview").await["totals"]["failed"] == 1),
    )
    .await
    .unwrap();
    let path = format!("holders/{deep}");
    let (status, _) = admin.call(Method::GET, &path, None).await;
    assert_eq!(status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_of_the_api_names_every_route_and_is_served_to_all() {
    let world = World::with_secret(&[]).await;
    let answer = world.ask(Method::GET, "/api/insights/openapi.json");
    let document: Value = answer.send().await.unwrap().json().await.unwrap();
    let paths = document["paths"].as_object().unwrap();
    let mut routes: Vec<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap();
            methods.keys().map(move |method| {
                let below = path.strip_prefix("/api/insights/{tenant}/").unwrap();
                format!("{method} {below}")
            })
        })
        .collect();
    routes.sort();
    assert_eq!(
        routes,
        [
            "get counters",
            "get holders",
            "get holders/{token}",
            "get me",
            "get overview",
            "get revocations",
            "post holders/revoke",
            "post holders/{token}/revoke",
            "post revocations/{token}/retry",
        ]
    );
    // Whatever refers to a schema finds it.
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
    }
}
