//! Sessions that end though nobody here closed them.

use std::sync::Arc;

use mcp_client::McpError;
use test_mcp::fake::{Gone, Step};

use crate::guard::{Ask, Say};
use crate::rig::Rig;

/// The server ends the session between two calls: the call says so, the guard is told, and the next call opens anew,
/// under a guard of its own.
async fn check_expired(how: Gone, deletes: usize) {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.fake.expire(how);
    let error = rig.echo().await.unwrap_err();
    assert!(matches!(error, McpError::Ended { .. }), "{error:?}");
    assert_eq!(
        rig.fake.opened(),
        ["fake-1"],
        "no session outside the guard"
    );
    rig.guards.until("1 closed").await;
    rig.assert_deleted(deletes);
    rig.echo().await.unwrap();
    let expected = [
        "1 opening",
        "1 opened http fake-1",
        "1 used",
        "1 used",
        "1 closed",
    ];
    assert_eq!(rig.guards.log()[..5], expected);
    assert_eq!(
        rig.guards.log()[5..],
        ["2 opening", "2 opened http fake-2", "2 used"]
    );
}

#[tokio::test]
async fn a_session_that_the_server_ended_is_given_back_and_the_next_call_opens_anew() {
    check_expired(Gone::NotFound, 0).await;
}

#[tokio::test]
async fn an_error_without_an_id_means_that_the_session_is_gone() {
    // Whether it is gone, the error does not say for certain: so the DELETE is sent.
    check_expired(Gone::BadRequest, 1).await;
}

#[tokio::test]
async fn a_revocation_in_the_middle_of_a_call_ends_call_and_session() {
    let rig = Rig::new().await;
    let call = rig.spawn_slow().await;
    rig.guards.revoke(1);
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, McpError::Revoked(_)), "{error:?}");
    assert_eq!(error.to_string(), "session revoked: an operator");
    rig.assert_deleted(1);
    rig.guards.until("1 closed").await;
}

#[tokio::test]
async fn a_revocation_without_a_call_ends_the_session() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.guards.revoke(1);
    rig.guards.until("1 closed").await;
    rig.assert_deleted(1);
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.opened(), ["fake-1", "fake-2"]);
}

#[tokio::test]
async fn a_late_revocation_of_an_old_session_leaves_the_new_one_alone() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.connection.close().await;
    rig.echo().await.unwrap();
    rig.guards.revoke(1);
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.live().into_iter().collect::<Vec<_>>(), ["fake-2"]);
}

#[tokio::test]
async fn a_session_that_is_lost_before_a_call_is_closed() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.guards.say(Ask::Used, Say::Lost);
    assert!(matches!(rig.echo().await, Err(McpError::Revoked(_))));
    rig.assert_deleted(1);
    assert_eq!(rig.fake.count(Step::Call), 1);
    rig.guards.agree(Ask::Used);
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.opened(), ["fake-1", "fake-2"]);
}

#[tokio::test]
async fn a_guard_that_cannot_say_stops_the_call_and_keeps_the_session() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.guards.say(Ask::Used, Say::Unavailable);
    assert!(matches!(rig.echo().await, Err(McpError::Unavailable(_))));
    assert_eq!(rig.fake.count(Step::Call), 1);
    rig.guards.agree(Ask::Used);
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.opened(), ["fake-1"]);
}

#[tokio::test]
async fn the_next_session_waits_until_the_guard_of_the_last_one_knows() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.guards.say(Ask::Closed, Say::Nothing);
    rig.guards.revoke(1);
    rig.guards.until("1 closed").await;
    let next = rig.spawn("echo");
    // Time enough for all that it could do.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.guards.log().last().unwrap(), "1 closed");
    rig.guards.agree(Ask::Closed);
    next.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_dropped_connection_ends_its_session() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    let Rig {
        fake,
        guards,
        connection,
    } = rig;
    drop(Arc::into_inner(connection));
    guards.until("1 closed").await;
    assert!(fake.live().is_empty());
}
