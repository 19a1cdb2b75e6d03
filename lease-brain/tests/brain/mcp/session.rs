//! The life of a session in the pod that opened it.

use std::fs;
use std::time::Duration;

use lease_brain::api::INTERNAL_TOKEN;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::json;
use test_mcp::fake::{FakeMcp, Fault, Gone, Step};
use test_mongo::eventually;

use super::{ADA, Attempts, BOB, Whose, call, close, fake, of, parameters, result, tools};
use crate::asking::{internal, plain, send};
use crate::fleet::{Fleet, PodOptions, SOON};

fn refused(reply: &crate::asking::Reply, status: u16, code: &str) {
    assert_eq!(reply.refusal(), (status, code.to_owned()), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_under_a_lease_from_its_opening_to_its_end() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let pod = fleet.pod("a").await;
    assert!(tools(&pod, "fake", ADA).await.contains_key("echo"));
    let reply = call(&pod, "fake", ADA, "echo", json!({ "text": "hi" })).await;
    assert!(result(&reply).to_string().contains("hi"));
    assert_eq!(server.opened().len(), 1);
    let [holder] = &fleet.sessions().await[..] else {
        panic!("{:?}", fleet.sessions().await);
    };
    let payload = holder.get_document("payload").unwrap();
    assert_eq!(payload.get_str("tool").unwrap(), "fake");
    assert_eq!(payload.get_str("transport").unwrap(), "http");
    assert_eq!(payload.get_str("endpoint").unwrap(), server.url());
    assert_eq!(payload.get_str("sessionId").unwrap(), server.opened()[0]);
    assert_eq!(holder.get_str("pod").unwrap(), pod.id.as_str());
    assert!(!holder.get_bool("podBound").unwrap());
    assert_eq!(holder.get_str("slotReturn").unwrap(), "AFTER_CLEANUP");
    // The payload, and each use.
    assert_eq!(holder.get_i64("beats").unwrap(), 3);
    // What the tool calls an error is a result.
    let failed = call(&pod, "fake", ADA, "fail", json!({})).await;
    assert!(
        failed.status.is_success() && failed.text.contains("isError"),
        "{failed:?}"
    );
    assert!(close(&pod, "fake", ADA).await);
    fleet.no_sessions().await;
    assert!(server.live().is_empty());
    assert_eq!(server.count(Step::Delete), 1);
    server.assert_no_unexpected();
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_unavailable_undefined_and_invalid_are_told_apart() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let pod = fleet.pod("a").await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    let elsewhere = Whose {
        project: "paper",
        user: "ada",
    };
    let busy = call(&pod, "fake", elsewhere, "echo", json!({})).await;
    refused(&busy, 409, "LEASE_BUSY");
    assert!(
        busy.text.contains("1 of 1 in use at level user") && busy.text.contains("mcp fake"),
        "{busy:?}"
    );
    assert_eq!(
        server.opened().len(),
        1,
        "nothing is opened without a lease"
    );

    server.fail(Step::Initialize, Fault::Status(500, "out of browsers"));
    refused(
        &call(&pod, "fake", BOB, "echo", json!({})).await,
        502,
        "MCP_UNAVAILABLE",
    );
    // Bob's lease was given back.
    fleet.only_booked(1).await;
    refused(
        &call(&pod, "none", ADA, "echo", json!({})).await,
        404,
        "LEASE_UNDEFINED",
    );
    refused(
        &call(&pod, "a%20b", ADA, "echo", json!({})).await,
        400,
        "BAD_REQUEST",
    );
    refused(
        &call(&pod, "%ff", ADA, "echo", json!({})).await,
        400,
        "BAD_REQUEST",
    );
    let nobody = Whose {
        project: "thesis",
        user: "",
    };
    refused(
        &call(&pod, "fake", nobody, "echo", json!({})).await,
        400,
        "BAD_REQUEST",
    );

    fleet
        .tool(
            "typo",
            &json!({ "transport": "http", "url": server.url(), "lease": "no-such" }),
        )
        .await;
    refused(
        &call(&pod, "typo", ADA, "echo", json!({})).await,
        404,
        "LEASE_UNDEFINED",
    );
    fleet.tool("broken", &json!({ "transport": "http" })).await;
    let broken = call(&pod, "broken", ADA, "echo", json!({})).await;
    refused(&broken, 422, "LEASE_INVALID");
    assert!(
        broken.text.contains("parameters.url: is missing"),
        "{broken:?}"
    );
    let command = json!({ "transport": "stdio", "command": ["touch", "/tmp/no"] });
    fleet.tool_in("acme", "thesis", "shell", &command).await;
    let shell = call(&pod, "shell", ADA, "echo", json!({})).await;
    refused(&shell, 422, "LEASE_INVALID");
    assert!(shell.text.contains("--allow-project-commands"), "{shell:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_first_calls_at_once_open_one_session() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let pod = fleet.pod("a").await;
    server.fail(Step::Initialize, Fault::Hang);
    let both = async {
        tokio::join!(
            call(&pod, "fake", ADA, "echo", json!({})),
            call(&pod, "fake", ADA, "echo", json!({})),
        )
    };
    let release = async {
        server
            .until("one opens", |server| server.count(Step::Initialize) == 1)
            .await;
        server.heal(Step::Initialize);
        server.release();
    };
    let ((one, two), ()) = tokio::join!(both, release);
    result(&one);
    result(&two);
    assert_eq!(server.opened().len(), 1);
    assert_eq!(fleet.sessions().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_that_goes_while_the_session_opens_leaves_nothing() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let pod = fleet.pod("a").await;
    for (step, done) in [
        (Step::Initialize, Fault::HangDone),
        (Step::Initialized, Fault::Hang),
    ] {
        server.fail(step, done);
        let before = server.count(step);
        let mut body = of(ADA);
        body["name"] = json!("echo");
        let caller = tokio::spawn(send(
            internal(&pod, Method::POST, "/internal/mcp/fake/call").json(&body),
        ));
        server
            .until("it opens", |server| server.count(step) == before + 1)
            .await;
        caller.abort();
        let _ = caller.await;
        fleet.no_sessions().await;
        server.heal(step);
        server.release();
        server
            .until("no session is left", |server| server.live().is_empty())
            .await;
    }
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn revoke_ends_a_call_under_way() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let (pod, other) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    let running = async { call(&pod, "fake", ADA, "slow", json!({})).await };
    let revoking = async {
        server
            .until("the call runs", |server| server.running() == 1)
            .await;
        let token = fleet.session_of("ada").await;
        other.revoke(&token).await;
        token
    };
    let (reply, token) = tokio::join!(running, revoking);
    refused(&reply, 410, "LEASE_LOST");
    assert!(
        reply.text.contains("session revoked") && reply.text.contains("operator"),
        "{reply:?}"
    );
    assert!(
        server.live().is_empty(),
        "its DELETE has come before the answer"
    );
    fleet.gone(&token).await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    assert_eq!(server.opened().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_takes_longer_than_the_time_to_live_keeps_its_lease() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    fleet
        .define("session", "levels: { user: 1 }\nttlSeconds: 1")
        .await;
    let pod = fleet.pod("a").await;
    let running = async { call(&pod, "fake", ADA, "slow", json!({})).await };
    let releasing = async {
        server
            .until("the call runs", |server| server.running() == 1)
            .await;
        let token = fleet.session_of("ada").await;
        let beats = async || {
            let holder = fleet.holder(&token).await?;
            holder.get_i64("beats").ok()
        };
        // The payload and the call make two; four more are more than a second.
        eventually("it is checked again and again", SOON, async || {
            Ok(beats().await.expect("the lease is held") >= 6)
        })
        .await
        .unwrap();
        server.release();
    };
    let (reply, ()) = tokio::join!(running, releasing);
    result(&reply);
    assert_eq!(server.opened().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_that_its_server_ended_is_opened_anew_under_a_new_lease() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let pod = fleet.pod("a").await;
    for how in [Gone::NotFound, Gone::BadRequest] {
        result(&call(&pod, "fake", ADA, "echo", json!({})).await);
        let before = fleet.session_of("ada").await;
        let opened = server.opened().len();
        server.expire(how);
        refused(
            &call(&pod, "fake", ADA, "echo", json!({})).await,
            502,
            "MCP_SESSION_ENDED",
        );
        fleet.gone(&before).await;
        assert_eq!(server.opened().len(), opened, "none outside a lease");
        result(&call(&pod, "fake", ADA, "echo", json!({})).await);
        assert_ne!(fleet.session_of("ada").await, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_session_is_closed_with_its_lease() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let pod = fleet.pod("a").await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    let idle = fleet.session_of("ada").await;
    fleet.age(Duration::from_secs(3600)).await;
    fleet.gone(&idle).await;
    assert!(server.live().is_empty());
    assert_eq!(server.count(Step::Delete), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_ends_when_its_document_changes() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let pod = fleet.pod("a").await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    // A project's own document takes the place of the system's, and names another server.
    let second = FakeMcp::start().await;
    fleet
        .tool_in("acme", "thesis", "fake", &parameters(&second))
        .await;
    server
        .until("the old session is ended", |server| {
            server.live().is_empty()
        })
        .await;
    fleet.no_sessions().await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    assert_eq!((server.opened().len(), second.opened().len()), (1, 1));
    // Its removal ends the session too.
    let path = "_vance/config/tools/fake.yaml";
    let address = lease_shared::definition::DocumentAddress::new("acme", "thesis", path).unwrap();
    fleet.leases.definitions().remove(&address).await.unwrap();
    second
        .until("it is ended", |second| second.live().is_empty())
        .await;
    fleet.no_sessions().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_closes_every_session() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    fleet
        .tool("free", &json!({ "transport": "http", "url": server.url() }))
        .await;
    let mut pod = fleet.pod("a").await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    result(&call(&pod, "fake", BOB, "echo", json!({})).await);
    result(&call(&pod, "free", BOB, "echo", json!({})).await);
    assert_eq!((server.live().len(), fleet.sessions().await.len()), (3, 2));
    pod.signal(Signal::TERM);
    assert!(pod.ended(SOON).await.success());
    assert!(server.live().is_empty());
    fleet.no_sessions().await;
    assert_eq!(
        fleet
            .pods()
            .count_documents(mongodb::bson::doc! { "status": "STOPPED" })
            .await
            .unwrap(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn session_carries_the_secret_of_its_documents_layer_and_shows_it_nowhere() {
    let fleet = Fleet::new().await;
    let server = FakeMcp::start().await;
    let secrets = tempfile::tempdir().unwrap();
    for (layer, value) in [
        ("_vance/_tenant", "of-the-system"),
        ("acme/thesis", "hunter2-of-the-project"),
    ] {
        fs::create_dir_all(secrets.path().join(layer)).unwrap();
        fs::write(secrets.path().join(layer).join("KEY"), value).unwrap();
    }
    let mut with_auth = parameters(&server);
    with_auth["auth"] = json!({ "type": "bearer", "token": "{{secret:KEY}}" });
    fleet
        .define("session", "levels: { user: 1 }\nttlSeconds: 600")
        .await;
    fleet.tool_in("acme", "thesis", "fake", &with_auth).await;
    fleet.tool_in("acme", "paper", "fake", &with_auth).await;
    let dir = format!("--secrets-dir={}", secrets.path().display());
    let pod = fleet.pod_with("a", PodOptions::with(&[&dir])).await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    assert!(close(&pod, "fake", ADA).await);
    let requests = server.requests();
    assert!(!requests.is_empty());
    for request in &requests {
        let authorization = request.authorization.as_deref();
        assert_eq!(
            authorization,
            Some("Bearer hunter2-of-the-project"),
            "{request:?}"
        );
    }
    // The system's secret of that name is not the other project's.
    let other = Whose {
        project: "paper",
        user: "ada",
    };
    let reply = call(&pod, "fake", other, "echo", json!({})).await;
    refused(&reply, 502, "MCP_UNAVAILABLE");
    assert!(
        reply.text.contains("project document acme/paper") && reply.text.contains("secret KEY"),
        "{reply:?}"
    );
    assert_eq!(server.requests().len(), requests.len(), "nothing was sent");
    fleet.no_sessions().await;
    let log = pod.log();
    assert!(
        !log.contains("hunter2") && !reply.text.contains("of-the-system"),
        "{log}"
    );
    for session in server.opened() {
        assert!(
            !log.contains(&session),
            "who knows a session's id can use it: {log}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_that_goes_while_it_waits_for_its_turn_leaves_no_trace() {
    let fleet = Fleet::new().await;
    let _server = fake(&fleet).await;
    fleet
        .define(
            "session",
            "levels: { project: 1 }\nttlSeconds: 600\nwaitMs: 86400000",
        )
        .await;
    let pod = fleet.pod("a").await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    let mut attempts = Attempts::from_now(&fleet).await;
    let mut body = of(BOB);
    body["name"] = json!("echo");
    let waiting = tokio::spawn(send(
        internal(&pod, Method::POST, "/internal/mcp/fake/call").json(&body),
    ));
    attempts.of("bob").await;
    // One that goes leaves no trace in the line.
    waiting.abort();
    assert!(close(&pod, "fake", ADA).await);
    eventually("nobody holds it", SOON, async || {
        Ok(fleet.booked().await == 0)
    })
    .await
    .unwrap();
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_are_internal_and_take_calls_alone() {
    let fleet = Fleet::new().await;
    let server = fake(&fleet).await;
    let pod = fleet.pod("a").await;
    let mut body = of(ADA);
    body["name"] = json!("echo");
    for verb in ["tools", "call", "close"] {
        let path = format!("/internal/mcp/fake/{verb}");
        let bare = plain(&pod, Method::POST, &path).json(&of(ADA));
        refused(&send(bare).await, 403, "FORBIDDEN");
        let wrong = plain(&pod, Method::POST, &path).header(INTERNAL_TOKEN, "wrong");
        refused(&send(wrong.json(&of(ADA))).await, 403, "FORBIDDEN");
        let mut unknown = of(ADA);
        unknown["extra"] = json!(1);
        let mut system = of(ADA);
        system["tenant"] = json!("_vance");
        if verb == "call" {
            system["name"] = json!("echo");
        }
        for (status, text) in [
            (400, String::new()),
            (400, "{".to_owned()),
            (422, "[]".to_owned()),
            (422, unknown.to_string()),
            (413, "x".repeat(4 * 1024 * 1024 + 1)),
        ] {
            let call =
                internal(&pod, Method::POST, &path).header("content-type", "application/json");
            refused(&send(call.body(text)).await, status, "BAD_REQUEST");
        }
        refused(
            &send(internal(&pod, Method::POST, &path).json(&system)).await,
            400,
            "BAD_REQUEST",
        );
    }
    assert!(server.requests().is_empty());
    // Arguments may be a whole document.
    body["arguments"] = json!({ "text": "x".repeat(1024 * 1024) });
    let large = send(internal(&pod, Method::POST, "/internal/mcp/fake/call").json(&body)).await;
    assert!(result(&large).to_string().len() > 1024 * 1024);
}
