//! The headers of each request, and what must not be told of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_client::{McpConnection, McpError};
use serde_json::Map;
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
