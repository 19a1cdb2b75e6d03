//! Calls, and lists of tools.

use std::time::Duration;

use mcp_client::McpError;
use serde_json::{Map, Value, json};
use test_mcp::fake::{Fault, Step};

use crate::guard::Guards;
use crate::rig::{Rig, http};

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn uses(guards: &Guards) -> usize {
    guards
        .log()
        .iter()
        .filter(|line| line.ends_with(" used"))
        .count()
}

#[tokio::test]
async fn a_result_comes_through() {
    let rig = Rig::new().await;
    let echoed = rig
        .connection
        .call("echo", object(json!({"text": "hi"})))
        .await
        .unwrap();
    assert_eq!(
        echoed,
        json!({"content": [{"type": "text", "text": "{\"text\":\"hi\"}"}]})
    );
    let failed = rig.connection.call("fail", Map::new()).await.unwrap();
    assert_eq!(failed["isError"], true);
}

#[tokio::test]
async fn a_result_that_comes_as_an_event_comes_through() {
    let rig = Rig::new().await;
    rig.fake.answer_by_events();
    assert!(rig.echo().await.unwrap()["content"].is_array());
}

#[tokio::test]
async fn calls_run_at_once_on_one_session() {
    let rig = Rig::new().await;
    let calls = [
        rig.spawn_slow().await,
        rig.spawn_slow().await,
        rig.spawn_slow().await,
    ];
    assert_eq!(rig.fake.running(), 3);
    rig.fake.release();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(rig.fake.opened(), ["fake-1"]);
}

#[tokio::test]
async fn a_time_limit_cancels_the_call_and_keeps_the_session() {
    let rig = Rig::with(|server| server.call_timeout = Duration::from_millis(300)).await;
    let error = rig.connection.call("slow", Map::new()).await.unwrap_err();
    assert!(matches!(error, McpError::Timeout { .. }), "{error:?}");
    rig.fake
        .until("the server knows", |fake| {
            fake.count(Step::Cancelled) == 1 && fake.running() == 0
        })
        .await;
    let call = &rig.fake.requests_of(Step::Call)[0].body["id"];
    assert_eq!(
        &rig.fake.requests_of(Step::Cancelled)[0].body["params"]["requestId"],
        call
    );
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.opened(), ["fake-1"]);
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_and_the_session_stays() {
    let rig = Rig::new().await;
    let call = rig.spawn_slow().await;
    call.abort();
    rig.fake
        .until("the server knows", |fake| {
            fake.count(Step::Cancelled) == 1 && fake.running() == 0
        })
        .await;
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.opened(), ["fake-1"]);
}

async fn check_failing(fault: Fault, expected: fn(&McpError) -> bool) {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.fake.fail(Step::Call, fault);
    let error = rig.echo().await.unwrap_err();
    assert!(expected(&error), "{error:?}");
    rig.fake.heal(Step::Call);
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.opened(), ["fake-1"]);
}

#[tokio::test]
async fn a_refused_call_leaves_the_session() {
    check_failing(Fault::Error(-32602, "no such thing"), |error| {
        matches!(error, McpError::Refused { code: -32602, message, .. } if message == "no such thing")
    })
    .await;
    check_failing(Fault::Status(401, "who are you?"), |error| {
        matches!(error, McpError::Refused { code: 401, message, .. } if message == "HTTP 401")
    })
    .await;
    check_failing(Fault::Status(403, ""), |error| {
        matches!(error, McpError::Refused { code: 403, .. })
    })
    .await;
    check_failing(Fault::Status(429, ""), |error| {
        matches!(error, McpError::Refused { code: 429, .. })
    })
    .await;
    check_failing(Fault::Status(502, "oh"), |error| {
        matches!(error, McpError::Broken { .. })
    })
    .await;
}

#[tokio::test]
async fn a_servers_words_are_cut_and_cannot_steer_a_terminal() {
    const WORDS: &str = "\u{1b}[31m0123456789012345678901234567890123456789012345678901234567890123456789\
        0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
        0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";
    let short = |error: &McpError| match error {
        McpError::Refused { message, .. } => {
            message.starts_with("\\u{1b}[31m01") && message.chars().count() < 210
        }
        _ => false,
    };
    check_failing(Fault::Error(1, WORDS), short).await;
    check_failing(Fault::Status(422, WORDS), short).await;
}

#[tokio::test]
async fn tools_are_listed_over_all_pages_and_kept_until_they_change() {
    let rig = Rig::with(|server| http(server).event_stream = true).await;
    rig.fake.set_tools(
        (1..=5)
            .map(|n| json!({"name": n.to_string(), "inputSchema": {}}))
            .collect(),
        2,
    );
    let names = async || {
        let tools = rig.connection.tools().await.unwrap();
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["1", "2", "3", "4", "5"]);
    assert_eq!((rig.fake.count(Step::List), uses(&rig.guards)), (3, 3));
    assert_eq!(names().await.len(), 5);
    assert_eq!(
        (rig.fake.count(Step::List), uses(&rig.guards)),
        (3, 4),
        "kept, and a use all the same"
    );

    rig.fake
        .until("the stream is open", |fake| fake.streams() == 1)
        .await;
    rig.fake
        .set_tools(vec![json!({"name": "new", "inputSchema": {}})], 2);
    let heard = async {
        while names().await != ["new"] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), heard)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_without_tools_lists_none() {
    let rig = Rig::new().await;
    rig.fake.set_tools(Vec::new(), 1);
    assert_eq!(rig.connection.tools().await.unwrap(), []);
}

#[tokio::test]
async fn a_list_without_end_is_cut() {
    let rig = Rig::new().await;
    rig.fake.set_tools(
        (0..1500)
            .map(|n| json!({"name": n.to_string(), "inputSchema": {}}))
            .collect(),
        300,
    );
    assert_eq!(rig.connection.tools().await.unwrap().len(), 1000);
    assert_eq!(rig.fake.count(Step::List), 4);
}

#[tokio::test]
async fn an_answer_without_end_is_not_read() {
    for events in [false, true] {
        let rig = Rig::with(|server| server.call_timeout = Duration::from_secs(5)).await;
        if events {
            rig.fake.answer_by_events();
        }
        let text = "x".repeat(9 << 20);
        rig.fake.set_tools(
            vec![json!({"name": "big", "description": text, "inputSchema": {}})],
            1,
        );
        assert!(matches!(
            rig.connection.tools().await,
            Err(McpError::Broken { .. })
        ));
        rig.echo().await.unwrap();
    }
}

#[tokio::test]
async fn default_arguments_are_filled_in_where_the_tool_has_them() {
    let defaults = json!({"text": "default", "times": "3", "loud": "", "unknown": "x"});
    let rig = Rig::with(|server| server.default_args = object(defaults)).await;
    for _ in 0..2 {
        rig.connection
            .call("echo", object(json!({"text": "mine", "loud": true})))
            .await
            .unwrap();
    }
    let sent = &rig.fake.requests_of(Step::Call)[1].body["params"]["arguments"];
    assert_eq!(*sent, json!({"text": "default", "times": 3, "loud": true}));
    assert_eq!(rig.fake.count(Step::List), 1);
    assert_eq!(uses(&rig.guards), 3);
}

#[tokio::test]
async fn without_default_arguments_no_tools_are_listed() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    assert_eq!(rig.fake.count(Step::List), 0);
}

#[tokio::test]
async fn a_stream_of_events_is_opened_only_if_it_is_wanted() {
    let rig = Rig::new().await;
    rig.echo().await.unwrap();
    rig.connection.close().await;
    assert_eq!(rig.fake.count(Step::Stream), 0);

    let rig = Rig::with(|server| http(server).event_stream = true).await;
    rig.echo().await.unwrap();
    rig.fake
        .until("the stream is open", |fake| fake.streams() == 1)
        .await;
    rig.connection.close().await;
    rig.fake
        .until("the stream is closed", |fake| fake.streams() == 0)
        .await;
    rig.assert_deleted(1);
}
