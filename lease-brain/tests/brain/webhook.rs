//! The handler that makes an HTTP call, against real receivers.

mod receiver;

use std::{process::Command, time::Duration};

use axum::http::Method;
use lease_brain::{
    handlers::webhook::{self, Webhook, WebhookLimits, WebhookPayload},
    secrets::Secrets,
};
use lease_shared::{LeaseHandler, LeaseToken, Revocation, RevocationReason, SlotReturn, Tenancy};
use mongodb::bson::{Document, doc};
use receiver::{Full, Raw, Receiver};
use tempfile::TempDir;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const VALUE: &str = "Bearer hunter2";
const PATH: &str = "/bench/capability?key=capability";

struct Stage {
    root: TempDir,
    webhook: Webhook,
}

impl Stage {
    fn new() -> Self {
        Self::with_limits(WebhookLimits::default())
    }

    fn with_limits(limits: WebhookLimits) -> Self {
        let root = tempfile::tempdir().unwrap();
        let secrets = Secrets::new(Some(root.path().join("secrets")));
        let webhook = Webhook::new(secrets, limits).unwrap();
        Self { root, webhook }
    }

    /// A secret in a file below the test's own folder.
    fn write(&self, path: &str, value: &str) {
        let file = self.root.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, value).unwrap();
    }

    async fn call(&self, payload: Document) -> Result<(), String> {
        self.handle(&revoked(payload)).await
    }

    /// The error with its causes, none of which tells what is nobody's business, nor does the handler itself.
    async fn handle(&self, revocation: &Revocation) -> Result<(), String> {
        let Err(error) = self.webhook.on_revoked(revocation).await else {
            return Ok(());
        };
        let debug = format!("{error:?} {:?}", self.webhook);
        let text = format!("{:#}", anyhow::Error::from_boxed(error));
        for secret in ["hunter2", "capability", TOKEN] {
            assert!(!text.contains(secret), "{text}");
            assert!(!debug.contains(secret), "{debug}");
        }
        Err(text)
    }
}

fn revoked(payload: Document) -> Revocation {
    Revocation {
        token: LeaseToken::new(TOKEN).unwrap(),
        lease_type: webhook::lease_type().unwrap(),
        reason: RevocationReason::Idle,
        tenancy: Tenancy::new("acme", "thesis", "ada").unwrap(),
        holder_ref: "host:17".to_owned(),
        pod: None,
        pod_bound: false,
        payload,
    }
}

fn payload(url: &str) -> Document {
    WebhookPayload::new(url).unwrap().to_document()
}

/// With the secret `KEY` as its authorization.
fn authorized(url: &str) -> Document {
    let payload = WebhookPayload::new(url).unwrap();
    payload
        .with_header("Authorization", "{{secret:KEY}}")
        .unwrap()
        .to_document()
}

#[tokio::test]
async fn answer_decides_whether_it_is_done() {
    let stage = Stage::new();
    stage.write("secrets/acme/thesis/KEY", VALUE);
    for (status, done) in [
        (200, true),
        (201, true),
        (204, true),
        (299, true),
        (404, true),
        (410, true),
        (300, false),
        (301, false),
        (302, false),
        (304, false),
        (307, false),
        (308, false),
        (400, false),
        (401, false),
        (403, false),
        (405, false),
        (408, false),
        (409, false),
        (429, false),
        (500, false),
        (503, false),
        (599, false),
    ] {
        let receiver = Receiver::answering(status).await;
        let result = stage.call(authorized(&receiver.url(PATH))).await;
        let expected = match done {
            true => Ok(()),
            false => Err(format!("{} answered {status}", receiver.host())),
        };
        assert_eq!(result, expected);
        // Neither again, nor to where a redirect points.
        assert_eq!(receiver.seen().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn call_tells_what_it_is_for() {
    let (stage, receiver) = (Stage::new(), Receiver::answering(200).await);
    stage.write("secrets/acme/thesis/KEY", VALUE);
    for (reason, word) in [
        (RevocationReason::Idle, "idle"),
        (RevocationReason::Pod, "pod"),
        (RevocationReason::Revoke, "revoke"),
    ] {
        let revocation = Revocation {
            reason,
            ..revoked(authorized(&receiver.url(PATH)))
        };
        stage.handle(&revocation).await.unwrap();
        let seen = receiver.last();
        assert_eq!((seen.method, &*seen.target), (Method::POST, PATH));
        assert_eq!(seen.headers["x-lease-reason"], word);
        assert_eq!(seen.headers["x-lease-holder"], "host:17");
        assert_eq!(seen.headers["authorization"], VALUE);
        assert_eq!(seen.body, "");
        let mut all = seen.headers.values();
        assert!(!all.any(|value| value.to_str().unwrap().contains(TOKEN)));
    }
}

#[tokio::test]
async fn method_and_body_are_those_of_the_payload() {
    let (stage, receiver) = (Stage::new(), Receiver::answering(200).await);
    let target = WebhookPayload::new(&receiver.url("/")).unwrap();
    for method in ["POST", "PUT", "DELETE", "PATCH", "GET"] {
        let payload = target.clone().with_method(method).unwrap();
        stage.call(payload.to_document()).await.unwrap();
        let seen = receiver.last();
        assert_eq!(seen.method.as_str(), method);
        assert!(!seen.headers.contains_key("content-type"));
    }
    for (body, content_type) in [
        ("{\"state\": \"öff\"}", "application/json"),
        ("", "text/plain; charset=utf-8"),
        ("state=off", "text/plain; charset=utf-8"),
    ] {
        let payload = target.clone().with_body(body).unwrap();
        stage.call(payload.to_document()).await.unwrap();
        let seen = receiver.last();
        assert_eq!(seen.body, body);
        assert_eq!(seen.headers["content-type"], content_type);
    }
    stage.write("secrets/acme/thesis/KIND", "application/x-yaml");
    let own = target.with_body("a: 1").unwrap();
    let own = own.with_header("Content-Type", "{{secret:KIND}}").unwrap();
    stage.call(own.to_document()).await.unwrap();
    assert_eq!(
        receiver.last().headers["content-type"],
        "application/x-yaml"
    );
}

#[tokio::test]
async fn any_reference_to_the_holder_arrives() {
    let (stage, receiver) = (Stage::new(), Receiver::answering(200).await);
    for (holder_ref, header) in [
        ("build 7/a-b", Some("build%207/a-b")),
        ("50%", Some("50%25")),
        ("é\u{1F600}", Some("%C3%A9%F0%9F%98%80")),
        ("", None),
    ] {
        let revocation = Revocation {
            holder_ref: holder_ref.to_owned(),
            ..revoked(payload(&receiver.url("/")))
        };
        stage.handle(&revocation).await.unwrap();
        let headers = receiver.last().headers;
        let holder = headers.get("x-lease-holder").map(|it| it.to_str().unwrap());
        assert_eq!(holder, header);
    }
}

#[tokio::test]
async fn repetition_is_known_by_its_key() {
    let (stage, receiver) = (Stage::new(), Receiver::answering(500).await);
    let first = revoked(payload(&receiver.url("/")));
    let again = Revocation {
        reason: RevocationReason::Revoke,
        ..first.clone()
    };
    let other = Revocation {
        token: LeaseToken::new("f".repeat(32)).unwrap(),
        ..first.clone()
    };
    for revocation in [&first, &again, &other] {
        stage.handle(revocation).await.unwrap_err();
    }
    let keys: Vec<_> = receiver
        .seen()
        .iter()
        .map(|seen| seen.headers["idempotency-key"].clone())
        .collect();
    // printf webhook:0123456789abcdef0123456789abcdef | sha256sum
    assert_eq!(
        keys[0],
        "0f79cc445a0300aab4ddaa96739fae4ab1957a173f1ba275c0c92bf4e25af5e2"
    );
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
}

#[tokio::test]
async fn secrets_are_those_of_the_holders_project_and_no_others() {
    let (stage, receiver) = (Stage::new(), Receiver::answering(200).await);
    let revocation = |tenant: &str, project: &str| Revocation {
        tenancy: Tenancy::new(tenant, project, "ada").unwrap(),
        ..revoked(authorized(&receiver.url(PATH)))
    };
    let absent = stage.handle(&revocation("acme", "thesis")).await;
    let error = absent.unwrap_err();
    assert!(error.starts_with("secret KEY: there is no "), "{error}");
    for foreign in [
        "secrets/other/thesis/KEY",
        "secrets/acme/other/KEY",
        "secrets/acme/_tenant/KEY",
        "secrets/_vance/_tenant/KEY",
        "secrets/acme/KEY",
        "secrets/KEY",
        "KEY",
    ] {
        stage.write(foreign, VALUE);
    }
    for (tenant, project) in [
        ("acme", "thesis"),
        ("acme", ".."),
        ("acme", "."),
        ("..", ".."),
        ("..", "secrets"),
        ("acme", "../other/thesis"),
        ("acme/other", "KEY"),
    ] {
        let error = stage.handle(&revocation(tenant, project)).await;
        let error = error.expect_err("no secret there");
        assert!(error.starts_with("secret KEY: there is no "), "{error}");
    }
    assert_eq!(receiver.seen().len(), 0, "nothing is sent without");
    // Read at each use.
    for value in ["first", "second\n"] {
        stage.write("secrets/acme/thesis/KEY", value);
        stage.handle(&revocation("acme", "thesis")).await.unwrap();
        assert_eq!(receiver.last().headers["authorization"], value.trim_end());
    }
}

#[tokio::test]
async fn secret_that_is_no_header_is_not_sent() {
    let (stage, receiver) = (Stage::new(), Receiver::answering(200).await);
    for value in [
        "hunter2\r\nX-Other: 1",
        "hunter2\n\n",
        "hunter2\t",
        "hunter2\0",
        "hunter2é",
    ] {
        stage.write("secrets/acme/thesis/KEY", value);
        let result = stage.call(authorized(&receiver.url(PATH))).await;
        assert_eq!(
            result.unwrap_err(),
            "secret KEY cannot be sent as header authorization: it must be printable ASCII on one line"
        );
    }
    assert_eq!(receiver.seen().len(), 0);
}

#[tokio::test]
async fn empty_payload_is_done_and_a_malformed_one_is_an_error() {
    let stage = Stage::new();
    assert_eq!(stage.webhook.slot_return(), SlotReturn::AfterCleanup);
    assert_eq!(stage.call(doc! {}).await, Ok(()));
    for (payload, problem) in [
        (doc! { "method": "POST" }, "webhook payload: url is missing"),
        (
            doc! { "url": "https://h/", "headers": { "Authorization": VALUE } },
            "webhook payload: headers.Authorization must have exactly `{{secret:NAME}}` as its value, for no credential \
             is stored",
        ),
        (
            doc! { "url": "https://ada:hunter2@h/" },
            "webhook payload: url must have no user and password; a header can name them as a secret",
        ),
    ] {
        assert_eq!(stage.call(payload).await, Err(problem.to_owned()));
    }
}

#[tokio::test]
async fn receiver_that_hangs_is_an_error_in_time() {
    let stage = Stage::with_limits(WebhookLimits {
        total: Duration::from_millis(300),
        ..WebhookLimits::default()
    });
    for begun in ["", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"] {
        let receiver = Raw::hanging_after(begun).await;
        let error = stage.call(payload(&receiver.url(PATH))).await.unwrap_err();
        let expected = format!("call {}: no answer within 300ms", receiver.host());
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(receiver.connections(), 1);
    }
}

#[tokio::test]
async fn receiver_that_takes_no_connection_is_an_error_in_time() {
    let stage = Stage::with_limits(WebhookLimits {
        connect: Duration::from_millis(300),
        ..WebhookLimits::default()
    });
    let receiver = Full::new().await;
    let error = stage.call(payload(&receiver.url(PATH))).await.unwrap_err();
    assert!(error.contains(": no connection within 300ms"), "{error}");
}

#[tokio::test]
async fn no_connection_is_used_twice() {
    let stage = Stage::new();
    // It would not answer a second time.
    let receiver = Raw::hanging_after("HTTP/1.1 204 No Content\r\n\r\n").await;
    for calls in 1..=3 {
        stage.call(payload(&receiver.url(PATH))).await.unwrap();
        assert_eq!(receiver.connections(), calls);
    }
}

#[tokio::test]
async fn cut_connection_is_an_error_and_not_tried_again() {
    let stage = Stage::new();
    for begun in [
        "",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "hello\r\n\r\n",
    ] {
        let receiver = Raw::closing_after(begun).await;
        let error = stage.call(payload(&receiver.url(PATH))).await.unwrap_err();
        let expected = format!(
            "call {}: the connection ended without an answer",
            receiver.host()
        );
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(receiver.connections(), 1, "{begun:?}");
    }
    let gone = Raw::closing_after("").await.url(PATH);
    let error = stage.call(payload(&gone)).await.unwrap_err();
    assert!(error.contains(": no connection: "), "{error}");
}

#[tokio::test]
async fn answers_body_is_not_waited_for() {
    let stage = Stage::new();
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf";
    let cut = Raw::closing_after(half).await;
    assert_eq!(stage.call(payload(&cut.url(PATH))).await, Ok(()));
    let stalled = Raw::hanging_after(half).await;
    assert_eq!(stage.call(payload(&stalled.url(PATH))).await, Ok(()));
    let endless = Raw::endless().await;
    assert_eq!(stage.call(payload(&endless.url(PATH))).await, Ok(()));
    let written = endless.ended().await;
    assert!(written < 64 << 20, "{written} bytes were taken");
}

/// Not by this process: an environment is changed before a process starts, or not at all.
#[tokio::test]
async fn environments_proxy_is_not_asked() {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "webhook::call_tells_what_it_is_for"]);
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY"] {
        again.env(variable, "http://127.0.0.1:1");
    }
    again.env_remove("NO_PROXY").env_remove("no_proxy");
    let output = tokio::task::spawn_blocking(move || again.output().unwrap());
    let output = output.await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}
