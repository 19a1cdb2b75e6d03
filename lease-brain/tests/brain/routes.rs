//! Every route, with and without the secret, with every kind of body, and while the store is away.

use std::time::{Duration, Instant};

use lease_brain::api::{INTERNAL_TOKEN, JobProgress};
use mongodb::bson::doc;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use test_mongo::{Mongod, TestMongo, eventually};

use crate::asking::{Reply, get, internal, job, metric, plain, post, send};
use crate::fleet::{Answer, Fleet, Plug, PodOptions, SECRET, SOON, token};

const REVOKED: &str = "/internal/lease/revoked";
const REVOKE: &str = "/internal/lease/admin/revoke";
const REVOKE_POD: &str = "/internal/lease/admin/revoke-pod";
const SWEEP: &str = "/internal/lease/admin/sweep";
const JOB: &str = "/internal/lease/admin/jobs/0";
const TOKEN: &str = "00000000000000000000000000000000";

/// The internal routes, each with a body that it takes.
fn internals() -> [(Method, &'static str, Value); 5] {
    [
        (
            Method::POST,
            REVOKED,
            json!({ "pod": "x", "token": TOKEN, "claim": "x" }),
        ),
        (
            Method::POST,
            REVOKE,
            json!({ "token": TOKEN, "reason": null, "ifPod": null }),
        ),
        (
            Method::POST,
            REVOKE_POD,
            json!({ "pod": "x", "reason": null }),
        ),
        (Method::POST, SWEEP, json!({})),
        (Method::GET, JOB, json!({})),
    ]
}

fn expect(reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.refusal(), (status, code.to_owned()), "{reply:?}");
    assert!(!reply.text.contains(SECRET), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_calls_are_done_for_who_shows_the_secret_and_nobody_else() {
    let fleet = Fleet::new().await;
    let closed = PodOptions {
        no_secret: true,
        ..PodOptions::default()
    };
    let (open, closed) = tokio::join!(fleet.pod("a"), fleet.pod_with("b", closed));
    for (method, path, body) in internals() {
        let call = |pod, secret: Option<&str>| {
            let call = plain(pod, method.clone(), path).json(&body);
            match secret {
                Some(secret) => call.header(INTERNAL_TOKEN, secret),
                None => call,
            }
        };
        for (secret, said) in [
            (None, "missing"),
            (Some(""), "wrong"),
            (Some("another-secret-altogether"), "wrong"),
            (Some(&SECRET[1..]), "wrong"),
        ] {
            let reply = send(call(&open, secret)).await;
            expect(&reply, 403, "FORBIDDEN");
            assert!(reply.text.contains(said), "{path} {secret:?}: {reply:?}");
        }
        for secret in [None, Some(""), Some(SECRET)] {
            let reply = send(call(&closed, secret)).await;
            expect(&reply, 403, "FORBIDDEN");
            assert!(reply.text.contains("--internal-token-file"), "{reply:?}");
        }
        let reply = send(call(&open, Some(SECRET))).await;
        let known = matches!(reply.status.as_u16(), 202 | 404);
        assert!(known, "{path}: {reply:?}");
    }
    for path in ["/healthz", "/readyz", "/metrics", "/assets/insights.css"] {
        assert_eq!(get(&closed, path).await.status, StatusCode::OK, "{path}");
    }
    assert!(!open.log().contains(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_a_call_is_refused_in_words() {
    let fleet = Fleet::new().await;
    let pod = fleet.pod("a").await;
    for (method, path, body) in internals() {
        if method == Method::GET || path == SWEEP {
            continue;
        }
        let text = body.to_string();
        let with = |field: &str, value: Value| {
            let mut body = body.clone();
            body[field] = value;
            body.to_string()
        };
        let json = "application/json";
        let bodies = [
            (413, json, "x".repeat(70_000)),
            (413, json, with("reason", "x".repeat(70_000).into())),
            (400, json, String::new()),
            (400, json, "{".to_owned()),
            (400, json, format!("{text} x")),
            (422, json, "[]".to_owned()),
            (422, json, "{}".to_owned()),
            (422, json, with("no-such-field", 1.into())),
            (
                422,
                json,
                with(if path == REVOKE { "token" } else { "pod" }, 7.into()),
            ),
            (
                422,
                json,
                with(if path == REVOKE { "token" } else { "pod" }, "".into()),
            ),
            (415, "text/plain", text.clone()),
        ];
        for (status, content, body) in bodies {
            let call = internal(&pod, Method::POST, path)
                .header("content-type", content)
                .body(body);
            let reply = send(call).await;
            expect(&reply, status, "BAD_REQUEST");
        }
    }
    let long = json!({ "token": TOKEN, "reason": "x".repeat(501), "ifPod": null });
    expect(&post(&pod, REVOKE, &long).await, 400, "BAD_REQUEST");
    let control = json!({ "pod": "x", "reason": "a\u{7}" });
    expect(&post(&pod, REVOKE_POD, &control).await, 400, "BAD_REQUEST");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_not_found_and_says_what() {
    let fleet = Fleet::new().await;
    let pod = fleet.pod("a").await;
    let unknown = json!({ "token": TOKEN, "reason": null, "ifPod": null });
    expect(&post(&pod, REVOKE, &unknown).await, 404, "UNKNOWN_TOKEN");
    let nobody = json!({ "pod": "nobody", "reason": null });
    expect(&post(&pod, REVOKE_POD, &nobody).await, 404, "UNKNOWN_POD");
    for job in ["0", "%20", "%ff", "../..", "a%2fb"] {
        let path = format!("/internal/lease/admin/jobs/{job}");
        let reply = send(internal(&pod, Method::GET, &path)).await;
        assert!(reply.status.is_client_error(), "{job}: {reply:?}");
    }
    expect(
        &send(internal(&pod, Method::GET, JOB)).await,
        404,
        "UNKNOWN_JOB",
    );
    let elsewhere = json!({ "pod": "nobody", "token": TOKEN, "claim": "x" });
    expect(&post(&pod, REVOKED, &elsewhere).await, 404, "UNKNOWN_POD");
    let stale = json!({ "pod": pod.id, "token": TOKEN, "claim": "x" });
    expect(&post(&pod, REVOKED, &stale).await, 404, "UNKNOWN_TOKEN");
    let wrong = send(internal(&pod, Method::GET, REVOKE)).await;
    assert_eq!(wrong.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(
        get(&pod, "/internal/none").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn job_that_revokes_a_pod_counts_what_it_did_and_what_is_left() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let pod = fleet.pod("a").await;
    for user in ["ada", "bob", "eve"] {
        token(fleet.lease(user, Some(&pod), true, &plug.url("/a")).await);
    }
    let other = token(fleet.lease("other", None, false, &plug.url("/b")).await);
    let call = json!({ "pod": pod.id, "reason": "maintenance" });
    let done = job(&pod, &post(&pod, REVOKE_POD, &call).await).await;
    let expected = JobProgress {
        done: true,
        total: 3,
        revoked: 3,
        cleanup_pending: 3,
        ..JobProgress::default()
    };
    assert_eq!(done, expected);
    assert_eq!(fleet.state(&other).await, "HELD");
    plug.called("/a", 3).await;
    // While they are cleaned up, the gauges say so; and afterwards, that it is over.
    let waiting = r#"vance_lease_revocations{state="waiting"}"#;
    assert_eq!(metric(&pod, waiting).await, Some(3.0));
    plug.answer(Answer::Status(200));
    eventually("all are cleaned up", SOON, async || {
        Ok(fleet.booked().await == 1)
    })
    .await
    .unwrap();
    let again = job(&pod, &post(&pod, REVOKE_POD, &call).await).await;
    assert_eq!((again.done, again.total), (true, 0));
    assert_eq!(metric(&pod, waiting).await, Some(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_does_is_counted_without_a_word_of_whose_it_was() {
    let fleet = Fleet::new().await;
    let pod = fleet
        .pod_with("a", PodOptions::with(&["--reconcile-interval=300ms"]))
        .await;
    let plug = Plug::new(Answer::Status(200)).await;
    let idle = token(fleet.lease("ada", None, false, &plug.url("/a")).await);
    let orphan = token(fleet.lease("bob", None, false, &plug.url("/a")).await);
    fleet.age_only(&idle, Duration::from_secs(3600)).await;
    let its = doc! { "_id": orphan.as_str() };
    fleet.holders().delete_one(its).await.unwrap();
    fleet.gone(&idle).await;
    let expected = [
        lease_shared::metrics::REAP,
        lease_shared::metrics::RECONCILE,
        lease_brain::metrics::HANDLER,
        lease_brain::metrics::HOLDERS,
        lease_brain::metrics::REVOCATIONS,
        lease_brain::metrics::PODS,
        lease_brain::metrics::SWEEP_AGE,
        lease_brain::metrics::DRIFT,
    ];
    let names = expected.map(|name| name.replace('.', "_"));
    let text = get(&pod, "/metrics").await.text;
    for name in names {
        assert!(text.contains(&format!("\n{name}")), "{name}: {text}");
    }
    for whose in ["acme", "thesis", "ada", "bob", idle.as_str()] {
        assert!(!text.contains(whose), "{whose}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_gauge_equals_a_fresh_count_after_failed_revocations_were_cleared() {
    let fleet = Fleet::new().await;
    let pod = fleet.pod("a").await;
    let held = token(fleet.lease("ada", None, false, "http://127.0.0.1:1").await);
    let failed = token(fleet.lease("bob", None, false, "http://127.0.0.1:1").await);
    let later = mongodb::bson::DateTime::from_millis(4_000_000_000_000);
    let revocation = doc! { "reason": "idle", "at": later, "nextTryAt": later, "failed": true };
    let its = doc! { "_id": failed.as_str() };
    let set = doc! { "$set": { "state": "REVOKING", "revocation": revocation } };
    fleet.holders().update_one(its, set).await.unwrap();
    let gauges = async || {
        let mut gauges = Vec::new();
        for series in [
            r#"holders{state="held"}"#,
            r#"holders{state="revoking"}"#,
            r#"holders{state="failed"}"#,
            r#"holders{state="pending"}"#,
            r#"revocations{state="failed"}"#,
            r#"revocations{state="waiting"}"#,
            r#"pods{state="alive"}"#,
            r#"pods{state="dead"}"#,
        ] {
            gauges.push(
                metric(&pod, &format!("vance_lease_{series}"))
                    .await
                    .unwrap(),
            );
        }
        gauges
    };
    assert_eq!(gauges().await, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    assert!(fleet.leases.cleanups().abandon(&failed).await.unwrap());
    assert_eq!(gauges().await, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(fleet.state(&held).await, "HELD");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_every_route_says_so_in_time() {
    let server = Mongod::start().await.unwrap();
    let fleet = Fleet::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let patient = PodOptions::with(&["--heartbeat=10s", "--stale=1m", "--reap-interval=1h"]);
    let pod = fleet.pod_with("a", patient).await;
    server.pause().unwrap();
    let ask = |call: reqwest::RequestBuilder| async {
        let began = Instant::now();
        let reply = send(call).await;
        assert!(began.elapsed() < Duration::from_secs(6), "{reply:?}");
        reply
    };
    let call = |path, body: Value| internal(&pod, Method::POST, path).json(&body);
    let stuck = json!({ "pod": pod.id, "token": TOKEN, "claim": "x" });
    let (ready, metrics, health, revoke, revoke_pod, revoked) = tokio::join!(
        ask(plain(&pod, Method::GET, "/readyz")),
        ask(plain(&pod, Method::GET, "/metrics")),
        ask(plain(&pod, Method::GET, "/healthz")),
        ask(call(REVOKE, internals()[1].2.clone())),
        ask(call(REVOKE_POD, internals()[2].2.clone())),
        ask(call(REVOKED, stuck)),
    );
    for reply in [ready, revoke, revoke_pod, revoked] {
        expect(&reply, 503, "LEASE_UNAVAILABLE");
    }
    assert_eq!(health.status, StatusCode::OK);
    // Unknown is not nothing.
    assert_eq!(metrics.status, StatusCode::OK);
    for state in ["held", "pending", "revoking", "failed"] {
        let unknown = format!("vance_lease_holders{{state=\"{state}\"}} NaN");
        assert!(metrics.text.contains(&unknown), "{metrics:?}");
    }
    server.resume().unwrap();
    eventually("it is ready again", SOON, || async {
        Ok(get(&pod, "/readyz").await.status == StatusCode::OK)
    })
    .await
    .unwrap();
}
