//! The DELETE that ends a session, ours or another process's.

use http::Method;
use mcp_client::{HttpServer, end_session};
use test_mcp::fake::{Fault, Step};
use wiremock::matchers::{any, header, method};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::guard::Guards;
use crate::rig::{Rig, http, rotating, server};

#[tokio::test]
async fn delete_names_the_session_and_asks_for_its_headers_anew() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.connection.close().await;
    let delete = &rig.fake.requests_of(Step::Delete)[0];
    assert_eq!(delete.session.as_deref(), Some("fake-1"));
    assert_eq!(delete.version.as_deref(), Some("2025-11-25"));
    // After initialize, initialized and the call.
    assert_eq!(delete.authorization.as_deref(), Some("Bearer 4"));
}

#[tokio::test]
async fn a_session_is_ended_in_the_version_that_was_agreed_on() {
    for elsewhere in [false, true] {
        let rig = Rig::new().await;
        rig.fake.agree_on("2025-03-26");
        rig.echo().await.unwrap();
        let payload = rig.guards.payload(0);
        assert_eq!(payload["protocolVersion"], "2025-03-26");
        if elsewhere {
            let mut server = server(rig.fake.url());
            let id = payload["sessionId"].as_str().unwrap();
            let version = payload["protocolVersion"].as_str();
            end_session(http(&mut server), id, version).await.unwrap();
        } else {
            rig.connection.close().await;
        }
        rig.assert_deleted(1);
        let delete = &rig.fake.requests_of(Step::Delete)[0];
        assert_eq!(delete.version.as_deref(), Some("2025-03-26"));
    }
}

#[tokio::test]
async fn a_session_without_a_known_version_is_ended_without_one() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    let mut server = server(rig.fake.url());
    end_session(http(&mut server), "fake-1", None)
        .await
        .unwrap();
    rig.assert_deleted(1);
    assert_eq!(rig.fake.requests_of(Step::Delete)[0].version, None);
}

async fn check(fault: Fault, noted: &str) {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.fake.fail(Step::Delete, fault);
    rig.connection.close().await;
    assert_eq!(rig.guards.log().last().unwrap(), noted);
}

#[tokio::test]
async fn a_session_is_gone_when_the_server_says_so_or_lets_nobody_end_it() {
    for status in [200, 204, 400, 404, 405] {
        check(Fault::Status(status, ""), "1 closed").await;
    }
}

#[tokio::test]
async fn another_answer_to_delete_leaves_a_doubt() {
    for status in [302, 401, 500] {
        let status = http::StatusCode::from_u16(status).unwrap();
        let noted = format!("1 closed, unsure: DELETE was answered with {status}");
        check(Fault::Status(status.as_u16(), ""), &noted).await;
    }
}

#[tokio::test]
async fn no_answer_to_delete_leaves_a_doubt_within_bounds() {
    check(
        Fault::Hang,
        "1 closed, unsure: DELETE was not answered within 5s",
    )
    .await;
}

#[tokio::test]
async fn a_server_that_is_no_longer_there_leaves_a_doubt() {
    let Rig {
        fake,
        guards,
        connection,
    } = Rig::new().await;
    connection.tools().await.unwrap();
    drop(fake);
    connection.close().await;
    let noted: String = guards.log().pop().unwrap();
    assert!(
        noted.starts_with("1 closed, unsure: DELETE failed: "),
        "{noted}"
    );
    assert!(
        noted.to_lowercase().contains("connection refused"),
        "{noted}"
    );
}

async fn check_end(status: u16) -> Result<(), String> {
    let double = MockServer::start().await;
    Mock::given(method(Method::DELETE))
        .and(header("mcp-session-id", "s-1"))
        .and(header("authorization", "Bearer 1"))
        .and(header("mcp-protocol-version", "2025-11-25"))
        .respond_with(ResponseTemplate::new(status))
        .expect(1)
        .mount(&double)
        .await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(500))
        .with_priority(9)
        .expect(0)
        .mount(&double)
        .await;
    let url = double.uri().parse().unwrap();
    let server = HttpServer {
        url,
        headers: rotating(),
        event_stream: false,
    };
    let ended = end_session(&server, "s-1", Some("2025-11-25")).await;
    double.verify().await;
    ended.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_session_of_another_process_is_ended_with_the_servers_own_headers() {
    for status in [200, 204, 400, 404, 405] {
        check_end(status).await.unwrap();
    }
    assert_eq!(
        check_end(500).await.unwrap_err(),
        "DELETE was answered with 500 Internal Server Error"
    );
    assert!(check_end(401).await.is_err());
    assert!(check_end(307).await.is_err());
}

#[tokio::test]
async fn an_id_that_no_header_can_carry_is_refused() {
    let guards = Guards::new();
    let mut server = server("http://127.0.0.1:9/mcp");
    let error = end_session(http(&mut server), "s\n1", None)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "the session's id is no header's value");
    assert!(guards.log().is_empty());
}
