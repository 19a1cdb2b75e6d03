//! Closing a connection.

use std::sync::Arc;

use mcp_client::McpError;
use test_mcp::fake::{Fault, Step};

use crate::guard::{Ask, Say};
use crate::rig::Rig;

#[tokio::test]
async fn close_waits_until_the_guard_knows() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.guards.say(Ask::Closed, Say::Nothing);
    let connection = Arc::clone(&rig.connection);
    let close = tokio::spawn(async move { connection.close().await });
    rig.guards.until("1 closed").await;
    assert!(!close.is_finished());
    rig.assert_deleted(1);
    rig.guards.agree(Ask::Closed);
    close.await.unwrap();
}

#[tokio::test]
async fn close_waits_for_what_a_dropped_caller_left() {
    let rig = Rig::new().await;
    rig.fake.fail(Step::Initialized, Fault::Hang);
    let call = rig.spawn("echo");
    rig.fake
        .until("it opens", |fake| fake.count(Step::Initialized) == 1)
        .await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    rig.connection.close().await;
    assert_eq!(
        rig.guards.log(),
        ["1 opening", "1 opened http fake-1", "1 closed"]
    );
    rig.assert_deleted(1);
}

#[tokio::test]
async fn close_ends_a_call_that_runs() {
    let rig = Rig::new().await;
    let call = rig.spawn_slow().await;
    rig.connection.close().await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, McpError::Broken { .. }), "{error:?}");
    rig.assert_deleted(1);
}

#[tokio::test]
async fn close_ends_a_session_that_opens_and_calls_that_wait_for_it() {
    let rig = Rig::new().await;
    rig.fake.fail(Step::Initialized, Fault::Hang);
    let (one, two) = (rig.spawn("echo"), rig.spawn("echo"));
    rig.fake
        .until("it opens", |fake| fake.count(Step::Initialized) == 1)
        .await;
    rig.connection.close().await;
    for call in [one, two] {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, McpError::Open { .. }), "{error:?}");
    }
    assert_eq!(
        rig.guards.log(),
        ["1 opening", "1 opened http fake-1", "1 closed"]
    );
    rig.assert_deleted(1);
}

#[tokio::test]
async fn a_closed_connection_opens_anew() {
    let rig = Rig::new().await;
    rig.connection.close().await;
    rig.echo().await.unwrap();
    rig.connection.close().await;
    rig.connection.close().await;
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.opened(), ["fake-1", "fake-2"]);
    assert_eq!(rig.fake.count(Step::Delete), 1);
}

#[tokio::test]
async fn a_server_without_sessions_gets_no_delete() {
    let rig = Rig::new().await;
    rig.fake.without_sessions();
    rig.echo().await.unwrap();
    rig.connection.close().await;
    assert_eq!(
        rig.guards.log(),
        ["1 opening", "1 opened http -", "1 used", "1 closed"]
    );
    rig.assert_deleted(0);
}
