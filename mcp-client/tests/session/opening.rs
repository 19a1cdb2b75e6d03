//! Opening a session, and failing to.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use mcp_client::{McpConnection, McpError, settled};
use serde_json::Map;
use test_mcp::fake::{Fault, Step};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::guard::{Ask, Guards, Say};
use crate::rig::{Rig, http, server};

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
async fn the_guard_hears_of_a_session_as_soon_as_it_has_an_id() {
    let rig = Rig::new().await;
    rig.fake.fail(Step::Initialized, Fault::Hang);
    let call = rig.spawn("echo");
    rig.guards.until("1 opened http fake-1").await;
    rig.fake
        .until("it goes on", |fake| fake.count(Step::Initialized) == 1)
        .await;
    assert!(!call.is_finished());
    rig.fake.release();
    call.await.unwrap().unwrap();
    assert_eq!(
        rig.guards.log(),
        ["1 opening", "1 opened http fake-1", "1 used"]
    );
}

#[tokio::test]
async fn a_session_without_an_id_is_told_of_when_it_is_open() {
    let rig = Rig::new().await;
    rig.fake.without_sessions();
    rig.fake.fail(Step::Initialized, Fault::Hang);
    let call = rig.spawn("echo");
    rig.fake
        .until("it opens", |fake| fake.count(Step::Initialized) == 1)
        .await;
    assert_eq!(rig.guards.log(), ["1 opening"]);
    rig.fake.release();
    call.await.unwrap().unwrap();
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
async fn those_who_wait_for_an_opening_share_its_failure() {
    let rig = Rig::new().await;
    rig.guards.say(Ask::Opening, Say::Nothing);
    let fail = async {
        rig.guards.until("1 opening").await;
        rig.guards.say(Ask::Opening, Say::Unavailable);
    };
    let (one, two, three, ()) = tokio::join!(rig.echo(), rig.echo(), rig.echo(), fail);
    for failed in [one, two, three] {
        assert!(
            matches!(failed, Err(McpError::Unavailable(_))),
            "{failed:?}"
        );
    }
    assert_eq!(rig.guards.log(), ["1 opening"]);
    rig.guards.agree(Ask::Opening);
    rig.echo().await.unwrap();
    assert_eq!(rig.guards.log()[1], "2 opening");
}

#[tokio::test]
async fn a_caller_that_gives_up_does_not_fail_those_who_wait() {
    let rig = Rig::new().await;
    rig.guards.say(Ask::Opening, Say::Nothing);
    let mut one = Box::pin(rig.echo());
    assert!(one.as_mut().now_or_never().is_none());
    let mut two = Box::pin(rig.echo());
    assert!(two.as_mut().now_or_never().is_none());
    rig.guards.until("1 opening").await;
    drop(one);
    rig.guards.agree(Ask::Opening);
    two.await.unwrap();
}

#[tokio::test]
async fn a_call_after_a_close_does_not_share_what_the_close_failed() {
    let rig = Rig::new().await;
    rig.guards.say(Ask::Opening, Say::Nothing);
    let mut one = Box::pin(rig.echo());
    assert!(one.as_mut().now_or_never().is_none());
    rig.guards.until("1 opening").await;
    let mut close = Box::pin(rig.connection.close());
    assert!(close.as_mut().now_or_never().is_none());
    let mut two = Box::pin(rig.echo());
    assert!(two.as_mut().now_or_never().is_none());
    rig.guards.agree(Ask::Opening);
    let (one, (), two) = tokio::join!(one, close, two);
    assert!(matches!(one, Err(McpError::Open { .. })), "{one:?}");
    two.unwrap();
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
async fn a_session_that_is_gone_at_once_is_said_to_be() {
    let rig = Rig::new().await;
    rig.fake
        .fail(Step::Initialized, Fault::Status(404, "no such session"));
    match rig.echo().await.unwrap_err() {
        McpError::Open { source, .. } => {
            assert_eq!(source.to_string(), "the server ended the session at once");
        }
        other => panic!("{other:?}"),
    }
    rig.guards.until("1 closed").await;
    assert_eq!(rig.fake.count(Step::Delete), 0);
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
async fn a_session_whose_answer_cannot_be_used_is_ended() {
    let answer = |status, kind, body: &str| Fault::Answer(status, kind, body.to_owned());
    let json = "application/json";
    for fault in [
        answer(200, json, "{"),
        answer(200, json, r#"{"jsonrpc": "2.0", "id": 0, "result": {}}"#),
        answer(200, json, &" ".repeat(9 << 20)),
        answer(200, "text/html", "<html>"),
        answer(200, "text/event-stream", ": nothing\n\n"),
        answer(200, "text/event-stream", &" ".repeat(9 << 20)),
        answer(202, json, ""),
        answer(400, "text/plain", "no"),
        answer(401, "text/plain", "no"),
        answer(404, "text/plain", "no"),
        answer(503, json, "no"),
        Fault::Half,
        Fault::Endless,
    ] {
        let refused = |error: &McpError| {
            is_open(error) || matches!(error, McpError::Refused { code: 401, .. })
        };
        check(Some((Step::Initialize, fault)), 1, refused, |_| {}).await;
    }
}

#[tokio::test]
async fn an_id_that_cannot_be_used_is_refused_and_leaves_a_doubt() {
    let rig = Rig::new().await;
    rig.fake.fail(Step::Initialize, Fault::Nameless);
    match rig.echo().await.unwrap_err() {
        McpError::Open { source, .. } => assert_eq!(
            source.to_string(),
            "the server named a session by what is no visible ASCII, so nobody can use or end it"
        ),
        other => panic!("{other:?}"),
    }
    let doubt = "1 closed, unsure: initialize opened a session whose id cannot be used, so nothing can end it";
    rig.guards.until(doubt).await;
    assert_eq!(rig.fake.count(Step::Initialized), 0);
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
async fn what_is_ended_late_can_be_waited_for_and_is_tried_again() {
    let rig = Rig::new().await;
    rig.fake.fail(Step::Initialize, Fault::HangDone);
    let call = rig.spawn("echo");
    rig.fake
        .until("it opens", |fake| fake.live().len() == 1)
        .await;
    call.abort();
    rig.connection.close().await;
    let mut settled = Box::pin(settled());
    assert!(settled.as_mut().now_or_never().is_none());
    rig.fake.fail(Step::Delete, Fault::Status(500, "not now"));
    rig.fake.release();
    rig.fake
        .until("it is tried", |fake| fake.count(Step::Delete) == 1)
        .await;
    rig.fake.heal(Step::Delete);
    settled.await;
    rig.assert_deleted(2);
}

#[tokio::test]
async fn a_caller_dropped_during_initialized_leaves_no_session() {
    check_dropped(Step::Initialized, Fault::Hang, false, "1 closed", 1).await;
    check_dropped(Step::Initialized, Fault::HangDone, false, "1 closed", 1).await;
}

/// The connection stands first when the session was given up long ago.
#[tokio::test]
async fn nothing_is_sent_for_a_session_that_was_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut server = server(&format!("http://{}", listener.local_addr().unwrap()));
    let (asked, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    http(&mut server).headers = Arc::new({
        let (asked, gate) = (Arc::clone(&asked), Arc::clone(&gate));
        move || {
            asked.notify_one();
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                gate.notified().await;
                Ok(Default::default())
            })
        }
    });
    let guards = Guards::new();
    let connection = Arc::new(McpConnection::new(server, guards.source()));
    let call = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move { connection.call("echo", Map::new()).await }
    });
    asked.notified().await;
    call.abort();
    connection.close().await;
    assert_eq!(guards.log(), ["1 opening", "1 closed"]);
    gate.notify_one();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut got = [0; 64];
    assert_eq!(stream.read(&mut got).await.unwrap(), 0);
    settled().await;
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
