//! Opening a session, and failing to.

use std::time::Duration;

use mcp_client::{McpConnection, McpError};
use serde_json::Map;
use test_mcp::fake::{Fault, Step};

use crate::guard::{Ask, Guards, Say};
use crate::rig::{Rig, server};

#[tokio::test]
async fn the_guard_hears_of_each_moment_in_its_order() {
    let rig = Rig::new().await;
    assert!(rig.guards.log().is_empty());
    rig.echo().await.unwrap();
    rig.echo().await.unwrap();
    rig.connection.close().await;
    assert_eq!(
        rig.guards.log(),
        [
            "1 opening",
            "1 opened http fake-1",
            "1 used",
            "1 used",
            "1 closed"
        ]
    );
    rig.assert_deleted(1);
}

#[tokio::test]
async fn nothing_is_sent_before_the_guard_has_let_it() {
    let rig = Rig::new().await;
    rig.guards.say(Ask::Opening, Say::Nothing);
    let call = rig.spawn("echo");
    rig.guards.until("1 opening").await;
    assert!(rig.fake.requests().is_empty());
    rig.guards.agree(Ask::Opening);
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn two_calls_at_once_open_one_session() {
    let rig = Rig::new().await;
    let (one, two) = tokio::join!(rig.echo(), rig.echo());
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(rig.fake.opened(), ["fake-1"]);
    assert_eq!(
        rig.guards
            .log()
            .iter()
            .filter(|line| line.ends_with("opening"))
            .count(),
        1
    );
}

#[tokio::test]
async fn a_refused_opening_sends_nothing() {
    let rig = Rig::new().await;
    rig.guards.say(Ask::Opening, Say::Unavailable);
    assert!(matches!(rig.echo().await, Err(McpError::Unavailable(_))));
    assert!(rig.fake.requests().is_empty());
    rig.guards.agree(Ask::Opening);
    rig.echo().await.unwrap();
    assert_eq!(
        rig.guards.log(),
        ["1 opening", "2 opening", "2 opened http fake-1", "2 used"]
    );
}

#[tokio::test]
async fn a_version_without_sessions_is_never_offered() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    let offered = &rig.fake.requests_of(Step::Initialize)[0].body["params"]["protocolVersion"];
    assert_eq!(offered, "2025-11-25");
    assert_eq!(rig.fake.live().len(), 1);
}

/// Whatever fails once the guard has let the session be opened: it is told that it is gone, and no session is left.
async fn check(
    fault: Option<(Step, Fault)>,
    deletes: usize,
    expected: fn(&McpError) -> bool,
    prepare: fn(&Guards),
) {
    let rig = Rig::with(|server| server.init_timeout = Duration::from_millis(300)).await;
    if let Some((step, fault)) = fault.clone() {
        rig.fake.fail(step, fault);
    }
    prepare(&rig.guards);
    let error = rig.echo().await.unwrap_err();
    assert!(expected(&error), "{error:?}");
    rig.guards.until("1 closed").await;
    rig.assert_deleted(deletes);

    if let Some((step, _)) = fault {
        rig.fake.heal(step);
        rig.fake.release();
    }
    rig.guards.agree(Ask::Opened);
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.live().len(), 1);
}

fn is_open(error: &McpError) -> bool {
    matches!(error, McpError::Open { .. })
}

#[tokio::test]
async fn a_refused_initialize_gives_the_guard_back() {
    check(
        Some((Step::Initialize, Fault::Status(500, "no"))),
        0,
        is_open,
        |_| {},
    )
    .await;
    let refused = |error: &McpError| matches!(error, McpError::Refused { code: 401, .. });
    check(
        Some((Step::Initialize, Fault::Status(401, "no"))),
        0,
        refused,
        |_| {},
    )
    .await;
}

#[tokio::test]
async fn a_refused_initialized_ends_the_session() {
    check(
        Some((Step::Initialized, Fault::Status(500, "no"))),
        1,
        is_open,
        |_| {},
    )
    .await;
}

#[tokio::test]
async fn a_time_limit_between_the_two_messages_ends_the_session() {
    check(Some((Step::Initialized, Fault::Hang)), 1, is_open, |_| {}).await;
}

#[tokio::test]
async fn an_error_that_comes_with_a_session_ends_that_session() {
    check(
        Some((Step::Initialize, Fault::Error(-32603, "no"))),
        1,
        is_open,
        |_| {},
    )
    .await;
}

#[tokio::test]
async fn a_session_that_nobody_could_clean_up_is_ended() {
    let unavailable = |error: &McpError| matches!(error, McpError::Unavailable(_));
    check(None, 1, unavailable, |guards| {
        guards.say(Ask::Opened, Say::Unavailable)
    })
    .await;
    let revoked = |error: &McpError| matches!(error, McpError::Revoked(_));
    check(None, 1, revoked, |guards| {
        guards.say(Ask::Opened, Say::Lost)
    })
    .await;
}

#[tokio::test]
async fn a_panic_on_the_way_ends_the_session() {
    check(None, 1, is_open, |guards| {
        guards.say(Ask::Opened, Say::Panic)
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_there_gives_the_guard_back() {
    let rig = Rig::new().await;
    let url = rig.fake.url().to_owned();
    drop(rig.fake);
    let guards = Guards::new();
    let connection = McpConnection::new(server(&url), guards.source());
    let error = connection.call("echo", Map::new()).await.unwrap_err();
    assert!(is_open(&error), "{error:?}");
    guards.until("1 closed").await;
}

/// A caller that goes away while its session opens leaves none.
async fn check_dropped(step: Step, fault: Fault, released: bool, noted: &str, deletes: usize) {
    let rig = Rig::new().await;
    rig.fake.fail(step, fault);
    let call = rig.spawn("echo");
    rig.fake
        .until("the step hangs", |fake| fake.count(step) == 1)
        .await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    if released {
        rig.fake.release();
    }
    rig.guards.until(noted).await;
    rig.assert_deleted(deletes);
    rig.fake.heal(step);
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.live().len(), 1);
}

#[tokio::test]
async fn a_caller_dropped_during_initialize_leaves_no_session() {
    check_dropped(Step::Initialize, Fault::HangDone, true, "1 closed", 1).await;
    check_dropped(Step::Initialize, Fault::Hang, true, "1 closed", 1).await;
}

#[tokio::test]
async fn a_server_that_never_answers_initialize_leaves_a_doubt() {
    let doubt =
        "1 closed, unsure: initialize was sent, and it is not known whether it opened a session";
    check_dropped(Step::Initialize, Fault::Hang, false, doubt, 0).await;
}

#[tokio::test]
async fn a_session_that_is_named_after_all_is_ended_after_all() {
    let rig = Rig::new().await;
    rig.fake.fail(Step::Initialize, Fault::HangDone);
    let call = rig.spawn("echo");
    rig.fake
        .until("it opens", |fake| fake.live().len() == 1)
        .await;
    call.abort();
    rig.guards.until("1 closed, unsure: initialize was sent, and it is not known whether it opened a session").await;
    rig.fake.release();
    rig.fake
        .until("it is ended", |fake| fake.live().is_empty())
        .await;
    rig.assert_deleted(1);
}

#[tokio::test]
async fn a_caller_dropped_during_initialized_leaves_no_session() {
    check_dropped(Step::Initialized, Fault::Hang, false, "1 closed", 1).await;
    check_dropped(Step::Initialized, Fault::HangDone, false, "1 closed", 1).await;
}

#[tokio::test]
async fn a_caller_dropped_while_the_guard_is_told_leaves_no_session() {
    let rig = Rig::new().await;
    rig.guards.say(Ask::Opened, Say::Nothing);
    let call = rig.spawn("echo");
    rig.guards.until("1 opened http fake-1").await;
    call.abort();
    rig.guards.until("1 closed").await;
    rig.assert_deleted(1);
}

#[tokio::test]
async fn a_caller_dropped_while_it_waits_for_its_turn_leaves_nothing() {
    let rig = Rig::new().await;
    rig.guards.say(Ask::Opening, Say::Nothing);
    let call = rig.spawn("echo");
    rig.guards.until("1 opening").await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    rig.connection.close().await;
    assert!(rig.fake.requests().is_empty());
    assert_eq!(rig.guards.log(), ["1 opening"]);
    rig.guards.agree(Ask::Opening);
    rig.echo().await.unwrap();
}

#[tokio::test]
async fn a_revocation_while_the_session_opens_ends_it() {
    let rig = Rig::new().await;
    rig.fake.fail(Step::Initialized, Fault::Hang);
    let call = rig.spawn("echo");
    rig.fake
        .until("it opens", |fake| fake.count(Step::Initialized) == 1)
        .await;
    rig.guards.revoke(1);
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, McpError::Revoked(_)), "{error:?}");
    rig.assert_deleted(1);
}
