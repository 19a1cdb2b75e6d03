//! Every route of the API, for those who may ask and for those who may not.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

use super::tokens::{MARK, now, token};
use super::{World, is, judged, with_form};
use crate::fleet::{Fleet, PodOptions};

/// The routes below `/api/insights/{tenant}`, and what those get who may ask: of a lease that is not there, without a body.
const ROUTES: [(Method, &str, u16, &str); 9] = [
    (Method::GET, "me", 200, "OK"),
    (Method::GET, "overview", 200, "OK"),
    (Method::GET, "holders", 200, "OK"),
    (
        Method::GET,
        "holders/00000000000000000000000000000000",
        404,
        "UNKNOWN_TOKEN",
    ),
    (
        Method::POST,
        "holders/00000000000000000000000000000000/revoke",
        415,
        "BAD_REQUEST",
    ),
    (Method::POST, "holders/revoke", 415, "BAD_REQUEST"),
    (Method::GET, "counters", 200, "OK"),
    (Method::GET, "revocations", 200, "OK"),
    (
        Method::POST,
        "revocations/00000000000000000000000000000000/retry",
        404,
        "UNKNOWN_TOKEN",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_route_is_for_administrators_of_its_tenant_alone() {
    let world = World::with_secret(&[]).await;
    let expired = json!({ "exp": now() - 60 });
    for (method, route, status, word) in ROUTES {
        let path = format!("/api/insights/acme/{route}");
        let call = || world.ask(method.clone(), &path);
        let none = judged(call().send().await.unwrap()).await;
        assert_eq!(none, is(401, "NOT_SIGNED_IN"), "{path}");
        for (name, changes, expected) in [
            ("expired", expired.clone(), is(401, "TOKEN_EXPIRED")),
            (
                "other tenant",
                json!({ "tenant": "other" }),
                is(403, "FORBIDDEN"),
            ),
            (
                "tenant in capitals",
                json!({ "tenant": "ACME" }),
                is(403, "FORBIDDEN"),
            ),
            ("no role", json!({ "roles": [] }), is(403, "FORBIDDEN")),
            (
                "other role",
                json!({ "roles": ["USER"] }),
                is(403, "FORBIDDEN"),
            ),
            (
                "small letters",
                json!({ "roles": ["admin"] }),
                is(403, "FORBIDDEN"),
            ),
            (
                "in one text",
                json!({ "roles": ["USER ADMIN"] }),
                is(403, "FORBIDDEN"),
            ),
            (
                "good",
                json!({ "roles": ["USER", "ADMIN"] }),
                is(status, word),
            ),
        ] {
            let answer = call().bearer_auth(token(changes)).send().await.unwrap();
            assert_eq!(answer.headers()["cache-control"], "no-store");
            assert_eq!(judged(answer).await, expected, "{path}: {name}");
        }
    }
}

/// The routes of the page below `/insights/{tenant}`, and how those are answered who may ask: of a lease that is not there.
const PAGES: [(Method, &str, u16); 14] = [
    (Method::GET, "", 200),
    (Method::GET, "/holders", 200),
    (
        Method::GET,
        "/holders/00000000000000000000000000000000",
        404,
    ),
    (Method::GET, "/counters", 200),
    (Method::GET, "/revocations", 200),
    (Method::GET, "/live/overview", 200),
    (Method::GET, "/live/holders", 200),
    (Method::GET, "/live/counters", 200),
    (Method::GET, "/live/revocations", 200),
    (
        Method::GET,
        "/live/holders/00000000000000000000000000000000",
        200,
    ),
    (
        Method::GET,
        "/holders/00000000000000000000000000000000/revoke",
        404,
    ),
    (
        Method::POST,
        "/holders/00000000000000000000000000000000/revoke",
        400,
    ),
    (
        Method::POST,
        "/holders/00000000000000000000000000000000/retry",
        404,
    ),
    (Method::POST, "/revoke", 400),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_page_is_for_administrators_of_its_tenant_alone() {
    let world = World::with_secret(&[]).await;
    let good = token(json!({}));
    for (method, place, status) in PAGES {
        let path = format!("/insights/acme{place}");
        let status_of = async |call: reqwest::RequestBuilder| {
            // Of a stream the head is enough.
            call.send().await.unwrap().status().as_u16()
        };
        let none = world.ask(method.clone(), &path);
        assert_eq!(status_of(none).await, 401, "{method} {path}");
        for (changes, expected) in [
            (json!({ "exp": now() - 60 }), 401),
            (json!({ "tenant": "other" }), 403),
            (json!({ "roles": ["USER"] }), 403),
            (json!({}), status),
        ] {
            let call = world.page(method.clone(), &path, &token(changes.clone()));
            assert_eq!(status_of(call).await, expected, "{method} {path} {changes}");
        }
        let elsewhere = world
            .ask(method.clone(), &path)
            .header("cookie", format!("lease_insights={good}"))
            .header("sec-fetch-site", "cross-site");
        let expected = if method == Method::POST { 403 } else { status };
        assert_eq!(status_of(elsewhere).await, expected, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_can_be_tried() {
    let world = World::with_secret(&[]).await;
    let token = token(json!({ "roles": ["USER", "ADMIN"], "exp": 4_000_000_000_u64 }));
    let call = world.ask(Method::GET, super::ME).bearer_auth(token);
    let said: Value = call.send().await.unwrap().json().await.unwrap();
    let expected = json!({
        "subject": MARK, "tenant": "acme", "roles": ["USER", "ADMIN"], "expiresAt": "2096-10-02T07:06:40Z",
    });
    assert_eq!(said, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_may_be_called_anything() {
    let world = World::with_secret(&[]).await;
    for tenant in [
        "a/b", "100%", "a b", "<script>", "é", "login", "me", "%2F", "a?b#c",
    ] {
        let path = utf8_percent_encode(tenant, NON_ALPHANUMERIC);
        let path = format!("/api/insights/{path}/me");
        let ask = |token: String| world.ask(Method::GET, &path).bearer_auth(token).send();
        let answer = ask(token(json!({ "tenant": tenant }))).await.unwrap();
        let said: Value = answer.json().await.unwrap();
        assert_eq!(said["tenant"], tenant);
        let other = ask(token(json!({}))).await.unwrap();
        assert_eq!(judged(other).await, is(403, "FORBIDDEN"), "{tenant}");
    }
    let call = world.ask(Method::GET, "/api/insights/%ff/me");
    let answer = call.bearer_auth(token(json!({}))).send().await.unwrap();
    assert_eq!(judged(answer).await, is(400, "BAD_REQUEST"));
}

#[tokio::test(flavor = "multi_thread")]
async fn brain_without_keys_shows_nothing_and_says_how_to_change_that() {
    let fleet = Fleet::new().await;
    let pod = fleet.pod_with("a", PodOptions::default()).await;
    let call = crate::asking::plain(&pod, Method::GET, super::ME).bearer_auth(token(json!({})));
    let reply = crate::asking::send(call).await;
    assert_eq!(reply.refusal(), is(404, "NO_INSIGHTS"));
    assert!(reply.text.contains("--jwt-secret-file"), "{reply:?}");
    let login = crate::asking::plain(&pod, Method::POST, "/insights/acme/login");
    let login = with_form(login, &token(json!({}))).header("sec-fetch-site", "same-origin");
    let reply = crate::asking::send(login).await;
    assert_eq!(reply.status, 404);
    assert!(reply.text.contains("--jwt-secret-file"), "{reply:?}");
}
