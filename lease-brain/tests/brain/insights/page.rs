//! Each page and each state of it, as a browser without scripts gets it.

use lease_shared::{LeaseRef, LeaseRequest, LeaseToken, LeaseType, Tenancy};
use mongodb::bson::doc;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::World;
use super::tokens::{now, token};
use crate::asking::{Reply, send};
use crate::fleet::{BENCH, Fleet, token as token_of};

/// A tenant whose name must be escaped everywhere.
const STRANGE: &str = "b/<script>%";
const STRANGE_PAGE: &str = "/insights/b%2F%3Cscript%3E%25";

impl World {
    /// Asks as a browser does in which somebody is signed in.
    pub(super) fn page(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        self.ask(method, path)
            .header("cookie", format!("lease_insights={token}"))
            .header("sec-fetch-site", "same-origin")
    }

    pub(super) async fn get(&self, path: &str, token: &str) -> Reply {
        send(self.page(Method::GET, path, token)).await
    }

    async fn post(&self, path: &str, token: &str, form: &str) -> Reply {
        let call = self.page(Method::POST, path, token);
        let call = call.header("content-type", "application/x-www-form-urlencoded");
        send(call.body(form.to_owned())).await
    }

    /// A lease with a name that must be escaped, and a secret in its payload.
    pub(super) async fn odd_lease(&self, tenant: &str, user: &str, secret: &str) -> LeaseToken {
        let request = LeaseRequest::builder()
            .lease_type(LeaseType::new("webhook").unwrap())
            .lease(LeaseRef::named(BENCH).unwrap())
            .tenancy(Tenancy::new(tenant, "thesis", user).unwrap())
            .holder_ref("job <17>")
            .payload(doc! { "url": "http://127.0.0.1:9/", "password": secret })
            .build();
        token_of(self.fleet.leases.acquire(request).await.unwrap())
    }
}

#[track_caller]
fn says(reply: &Reply, status: u16, words: &[&str]) {
    assert_eq!(reply.status.as_u16(), status, "{reply:?}");
    for text in words {
        assert!(reply.text.contains(text), "no {text:?} in {}", reply.text);
    }
    assert!(!reply.text.contains("<script>"), "{}", reply.text);
    assert!(!reply.text.contains(" style="), "{}", reply.text);
    assert!(!reply.text.contains("&lt;span"), "{}", reply.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_shows_the_leases_of_its_tenant_and_no_others() {
    let world = World::with_secret(&[]).await;
    let acme = token(json!({}));
    let strange = token(json!({ "tenant": STRANGE }));
    let page = |place: &str| format!("/insights/acme{place}");

    let none = world.get(&page("/holders"), &acme).await;
    says(&none, 200, &["Nobody holds a lease", "lease run tex -- "]);
    let none = world.get(&page("/counters"), &acme).await;
    says(&none, 200, &["Nothing is counted yet"]);

    let ada = world.odd_lease("acme", "ada", "hunter2").await;
    let eve = world.odd_lease(STRANGE, "<script>", "hunter3").await;
    for (place, words) in [
        (
            "",
            [
                "being acquired",
                "Held the longest",
                "ceiling shared by all tenants",
            ],
        ),
        (
            "/holders",
            ["showing 1 of 1", ada.as_str(), "job &lt;17&gt;"],
        ),
        (
            "/holders?user=ada&sort=expiry",
            ["showing 1 of 1", "clear filters", "ada"],
        ),
        (
            "/counters",
            ["1 of 1", "full: who asks next waits", "user "],
        ),
        (
            "/revocations",
            ["Nothing is being revoked", "showing 0 of 0", "Revocations"],
        ),
    ] {
        let reply = world.get(&page(place), &acme).await;
        says(&reply, 200, &words);
        says(
            &reply,
            200,
            &["<title>", "aria-current=\"page\"", "Signed in as"],
        );
        assert!(!reply.text.contains(eve.as_str()), "{}", reply.text);
        assert_eq!(reply.text.matches("<h1>").count(), 1, "{place}");
    }
    let none = world.get(&page("/holders?q=nobody"), &acme).await;
    says(&none, 200, &["No lease matches", "Clear filters"]);

    let one = world.get(&page(&format!("/holders/{ada}")), &acme).await;
    says(
        &one,
        200,
        &[
            "it was acquired",
            "hidden: looks like a secret",
            "What a revocation would do",
        ],
    );
    assert!(!one.text.contains("hunter2"), "{}", one.text);

    let reply = world
        .get(&format!("{STRANGE_PAGE}/holders"), &strange)
        .await;
    says(&reply, 200, &[eve.as_str(), "&lt;script&gt;", STRANGE_PAGE]);
    assert!(!reply.text.contains(ada.as_str()), "{}", reply.text);
    for place in ["", "/revoke"] {
        let path = format!("{STRANGE_PAGE}/holders/{ada}{place}");
        says(&world.get(&path, &strange).await, 404, &["No such lease"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_state_has_its_own_words() {
    let world = World::with_secret(&[]).await;
    let good = token(json!({}));
    let user = token(json!({ "roles": ["USER"] }));
    let other = token(json!({ "tenant": "other" }));
    let expired = token(json!({ "exp": now() - 60 }));
    let zeros = "0".repeat(32);
    let gone = format!("/insights/acme/holders/{zeros}");
    let holders = "/insights/acme/holders";
    let rows: [(&str, &str, u16, &[&str]); 13] = [
        (
            "/insights",
            "",
            200,
            &["<form", "action=\"/insights\"", "Token"],
        ),
        (
            holders,
            "",
            401,
            &["action=\"/insights/acme/login\"", "Token"],
        ),
        (
            holders,
            &expired,
            401,
            &["has expired", "action=\"/insights/acme/login\""],
        ),
        (holders, "nonsense", 401, &["Not accepted"]),
        (holders, &user, 403, &["role", "ADMIN", "acme"]),
        (holders, &other, 403, &["role", "ADMIN", "acme"]),
        (&gone, &good, 404, &["No such lease", &zeros]),
        ("/insights/acme/holders/x", &good, 404, &["No such lease"]),
        ("/insights/acme/live/nothing", &good, 404, &["No such page"]),
        (
            "/insights/acme/holders?state=FREE",
            &good,
            400,
            &["state", "FREE", "must be one of"],
        ),
        (
            "/insights/acme/holders?olderThan=x",
            &good,
            400,
            &["olderThan", "is no time", "write it like `2h 30m`"],
        ),
        (
            "/insights/acme/live/holders?page=0",
            &good,
            400,
            &["page", "must be 1 to"],
        ),
        ("/insights/acme/counters?color=red", &good, 400, &["color"]),
    ];
    for (path, token, status, words) in rows {
        says(&world.get(path, token).await, status, words);
    }
    let part = world.page(Method::GET, holders, &expired);
    let part = send(part.header("hx-request", "true")).await;
    says(&part, 401, &["data-state=\"expired\""]);
    assert!(!part.text.contains("<html"), "{}", part.text);

    let retry = format!("{gone}/retry");
    let foreign = world.ask(Method::POST, &retry);
    let foreign = foreign.header("cookie", format!("lease_insights={good}"));
    let reply = send(foreign.header("sec-fetch-site", "cross-site")).await;
    says(&reply, 403, &["another site's page"]);

    let closed = World::start(Fleet::new().await, tempfile::tempdir().unwrap(), &[]).await;
    says(
        &closed.get("/insights", "").await,
        404,
        &["--jwt-secret-file"],
    );
    says(
        &closed.get(holders, &good).await,
        404,
        &["--jwt-secret-file"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_is_ended_after_a_question_and_its_result_is_said() {
    let world = World::with_secret(&[]).await;
    let admin = token(json!({ "sub": "ada" }));
    let own = world.odd_lease("acme", "ada", "x").await;
    let others = world.odd_lease("acme", "grace", "x").await;
    let place = |token: &LeaseToken| format!("/insights/acme/holders/{token}/revoke");

    let asked = world.get(&place(&others), &admin).await;
    says(
        &asked,
        200,
        &[
            "What will happen",
            "What is not undone",
            "grace",
            "required",
        ],
    );
    let asked = world.get(&place(&own), &admin).await;
    says(&asked, 200, &["the lease is your own"]);

    let form = |token: &LeaseToken, reason: &str| format!("seen={token}.HELD&reason={reason}");
    let refused = world
        .post(&place(&others), &admin, &form(&others, ""))
        .await;
    says(&refused, 422, &["give a reason"]);
    let refused = world.post(&place(&others), &admin, &form(&own, "")).await;
    says(&refused, 400, &["about another lease"]);

    let done = world.post(&place(&own), &admin, &form(&own, "")).await;
    says(&done, 200, &["1 revoked"]);
    let again = world.post(&place(&own), &admin, &form(&own, "")).await;
    says(&again, 200, &["holder changed"]);

    let all = format!("/insights/acme/revoke?seen={own}.HELD&seen={others}.HELD");
    let asked = world.get(&all, &admin).await;
    says(
        &asked,
        200,
        &["1 of those you chose changed meanwhile", "Revoke 1 lease"],
    );
    let call = world.page(Method::POST, "/insights/acme/revoke", &admin);
    let call = call
        .header("hx-request", "true")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("seen={own}.HELD&seen={others}.HELD&reason=demo"));
    let answer = call.send().await.unwrap();
    assert_eq!(answer.headers()["hx-retarget"], "#outcome");
    let reply = Reply::of(answer).await;
    says(
        &reply,
        200,
        &[
            "1 revoked, 1 ",
            &format!("id=\"result-{others}\" hx-swap-oob"),
        ],
    );

    let revocations = world.get("/insights/acme/revocations", &admin).await;
    says(
        &revocations,
        200,
        &["demo", "by <bdi>ada</bdi>", "Try again now"],
    );
    let retry = format!("/insights/acme/holders/{others}/retry");
    let retried = world.post(&retry, &admin, "").await;
    assert_eq!(retried.status, 200, "{retried:?}");
}
