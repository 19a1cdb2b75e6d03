//! The headers of each request, and what must not be told of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_client::{McpConnection, McpError};
use serde_json::Map;
use test_mcp::fake::{Fault, Step};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::guard::Guards;
use crate::rig::{Rig, headers, http, server};

#[tokio::test]
async fn each_request_asks_for_its_headers_anew() {
    let rig = Rig::with(|server| http(server).event_stream = true).await;
    rig.echo().await.unwrap();
    rig.connection.tools().await.unwrap();
    rig.fake
        .until("the stream is open", |fake| fake.streams() == 1)
        .await;
    rig.connection.close().await;
    let requests = rig.fake.requests();
    let steps: HashSet<_> = requests
        .iter()
        .map(|request| format!("{:?}", request.step()))
        .collect();
    assert_eq!(steps.len(), 6, "{steps:?}");
    let tokens: HashSet<_> = requests
        .iter()
        .map(|request| request.authorization.clone().unwrap())
        .collect();
    assert_eq!(tokens.len(), requests.len());
}

#[tokio::test]
async fn a_source_of_headers_that_fails_fails_the_call() {
    let fails = Arc::new(AtomicBool::new(true));
    let rig = Rig::with(|server| {
        let fails = Arc::clone(&fails);
        http(server).headers = Arc::new(move || {
            let fail = fails.load(Ordering::Relaxed);
            Box::pin(async move {
                if fail {
                    Err("no such secret".into())
                } else {
                    Ok(headers(&[]))
                }
            })
        });
    })
    .await;
    let says_why = |source: &(dyn std::error::Error + 'static)| {
        source.source().unwrap().to_string() == "no such secret"
    };
    match rig.echo().await.unwrap_err() {
        McpError::Open { source, .. } => assert!(says_why(&*source)),
        other => panic!("{other:?}"),
    }
    rig.guards.until("1 closed").await;
    fails.store(false, Ordering::Relaxed);
    rig.echo().await.unwrap();
    fails.store(true, Ordering::Relaxed);
    match rig.echo().await.unwrap_err() {
        McpError::Broken { source, .. } => assert!(says_why(&*source)),
        other => panic!("{other:?}"),
    }
    fails.store(false, Ordering::Relaxed);
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.opened(), ["fake-1"]);
}

#[tokio::test]
async fn a_source_of_headers_that_panics_fails_the_call_and_gives_the_guard_back() {
    let rig =
        Rig::with(|server| http(server).headers = Arc::new(|| panic!("as the test wants it")))
            .await;
    assert!(matches!(rig.echo().await, Err(McpError::Open { .. })));
    rig.guards.until("1 closed").await;
}

#[tokio::test]
async fn headers_of_the_protocol_cannot_be_given() {
    for name in [
        "accept",
        "content-type",
        "mcp-session-id",
        "mcp-protocol-version",
        "last-event-id",
    ] {
        let rig = Rig::with(|server| {
            http(server).headers =
                Arc::new(move || Box::pin(async move { Ok(headers(&[(name, "x")])) }));
        })
        .await;
        match rig.echo().await.unwrap_err() {
            McpError::Open { source, .. } => {
                assert_eq!(
                    source.to_string(),
                    format!("header {name} belongs to the protocol and cannot be given")
                );
            }
            other => panic!("{other:?}"),
        }
        assert!(rig.fake.requests().is_empty());
    }
}

#[tokio::test]
async fn no_secret_is_shown() {
    let Rig { fake, .. } = Rig::new().await;
    let url = fake.url().replace("http://", "http://ada:hunter2@") + "?key=hunter2#hunter2";
    drop(fake);
    let mut server = server(&url);
    let endpoint = http(&mut server).endpoint();
    assert!(
        endpoint.ends_with("/mcp?sha256=8525ed03801c4c29"),
        "{endpoint}"
    );
    assert!(!endpoint.contains("ada") && !endpoint.contains("hunter2"));
    assert!(!format!("{server:?}").contains("hunter2"));
    let connection = McpConnection::new(server, Guards::new().source());
    assert!(!format!("{connection:?}").contains("hunter2"));
    let error = connection.call("echo", Map::new()).await.unwrap_err();
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

/// What is passed on of a server's words that hold what it was sent.
async fn check_echo(step: Step, fault: Fault, events: bool, expected: &str) {
    let rig = Rig::with(|server| {
        http(server).headers = Arc::new(|| {
            Box::pin(async { Ok(headers(&[("authorization", "Bearer hunter2-secret")])) })
        });
    })
    .await;
    if events {
        rig.fake.answer_by_events();
    }
    if step == Step::Call {
        rig.echo().await.unwrap();
    }
    rig.fake.fail(step, fault);
    let error = rig.echo().await.unwrap_err();
    let said = match &error {
        McpError::Open { source, .. } | McpError::Broken { source, .. } => source.to_string(),
        error => error.to_string(),
    };
    assert!(said.contains(expected), "{error:?}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    assert!(!format!("{error:?}").contains("fake-1"), "{error:?}");
}

#[tokio::test]
async fn what_a_server_was_sent_is_not_passed_on_when_it_says_it() {
    const ECHO: &str = "Bearer hunter2-secret (hunter2-secret) of fake-1";
    for step in [Step::Initialize, Step::Initialized, Step::Call] {
        check_echo(step, Fault::Status(401, ECHO), false, "HTTP 401").await;
        check_echo(step, Fault::Status(403, ECHO), false, "HTTP 403").await;
    }
    for step in [Step::Initialized, Step::Call] {
        check_echo(step, Fault::Status(400, ECHO), false, "… (…) of …").await;
    }
    let words = Fault::Answer(400, "text/plain", ECHO.to_owned() + &" ".repeat(1 << 20));
    check_echo(Step::Initialize, words, false, "… (…) of …").await;
    for events in [false, true] {
        for step in [Step::Initialize, Step::Call] {
            check_echo(step, Fault::Error(-1, ECHO), events, "… (…) of …").await;
        }
    }
    let json = Fault::Answer(200, "application/json", format!("\"{ECHO}\""));
    check_echo(Step::Initialize, json, false, "").await;
    let kind = Fault::Answer(200, "text/hunter2-secret; fake-1", String::new());
    check_echo(Step::Initialize, kind, false, "text/…; …").await;
}

#[tokio::test]
async fn no_redirect_carries_the_headers_elsewhere() {
    let (here, there) = (MockServer::start().await, MockServer::start().await);
    let elsewhere = ResponseTemplate::new(307).insert_header("location", there.uri());
    Mock::given(any())
        .respond_with(elsewhere)
        .mount(&here)
        .await;
    let guards = Guards::new();
    let connection = McpConnection::new(server(&here.uri()), guards.source());
    assert!(connection.call("echo", Map::new()).await.is_err());
    assert!(there.received_requests().await.unwrap().is_empty());
    assert_eq!(here.received_requests().await.unwrap().len(), 1);
    connection.close().await;
}
