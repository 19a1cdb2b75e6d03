//! The real servers of npm, with Debian's Chromium. Where they are missing a line says so, and CI requires them.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use test_mcp::real::{
    Everything, PAGE, Playwright, Profile, Tools, browsers_of, processes_mentioning, tools,
};
use test_mongo::eventually;

use super::{ADA, Attempts, BOB, Whose, call, close, text};
use crate::asking::post;
use crate::fleet::{Fleet, Pod, SOON};
use crate::sweep::in_touch;

/// Long enough for a browser to start on a loaded machine.
const INIT_SECONDS: u64 = 30;

macro_rules! tools_or_skip {
    () => {
        match tools().unwrap() {
            Some(tools) => tools,
            None => return,
        }
    };
}

/// A server whose sessions hold a browser, one of which runs at a time.
async fn browser(
    fleet: &Fleet,
    tools: &Tools,
    levels: &str,
    extra: &[(&str, Value)],
) -> Playwright {
    let server = Playwright::http(tools, Profile::Isolated).await.unwrap();
    let body = format!("levels: {levels}\nttlSeconds: 600\nwaitMs: 60000");
    fleet.define("browser", &body).await;
    let mut parameters = json!({
        "transport": "http",
        "url": server.url(),
        "initTimeoutSeconds": INIT_SECONDS,
        "lease": "browser",
    });
    for (key, value) in extra {
        parameters[*key] = value.clone();
    }
    fleet.tool("browser", &parameters).await;
    server
}

async fn navigate(pod: &Pod, whose: Whose) -> crate::asking::Reply {
    call(
        pod,
        "browser",
        whose,
        "browser_navigate",
        json!({ "url": PAGE }),
    )
    .await
}

async fn browsers(server: &Playwright, count: usize) {
    eventually(&format!("{count} browsers run"), SOON, async || {
        Ok(server.browsers()? == count)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn real_server_is_used_over_http_and_over_stdio() {
    let kit = tools_or_skip!();
    let fleet = Fleet::new().await;
    let server = Everything::http(&kit).await.unwrap();
    let stdio = tempfile::tempdir().unwrap();
    fleet
        .define("everything", "levels: { user: 1 }\nttlSeconds: 600")
        .await;
    let http = json!({ "transport": "http", "url": server.url(), "initTimeoutSeconds": 30, "lease": "everything" });
    fleet.tool("web", &http).await;
    let mut command = vec![
        "env".to_owned(),
        format!("TMPDIR={}", stdio.path().display()),
    ];
    command.extend(kit.everything_stdio());
    let child = json!({
        "transport": "stdio",
        "command": command,
        "initTimeoutSeconds": 30,
        "env": { "FOO": "bar" },
        "lease": { "name": "child", "levels": { "user": 1 } },
    });
    fleet.tool("child", &child).await;
    let pod = fleet.pod("a").await;
    for tool in ["web", "child"] {
        let offered = super::tools(&pod, tool, ADA).await;
        assert!(offered.contains_key("echo"), "{:?}", offered.keys());
        let reply = call(&pod, tool, ADA, "echo", json!({ "message": "hi" })).await;
        assert!(text(&reply).contains("hi"), "{reply:?}");
    }
    assert_eq!(fleet.sessions().await.len(), 2);
    let reply = call(&pod, "child", ADA, "get-env", json!({})).await;
    let env: Value = serde_json::from_str(&text(&reply)).unwrap();
    assert_eq!(env["FOO"], "bar");
    assert!(
        env.get("LEASE_INTERNAL_TOKEN").is_none() && env.get("MONGODB_URI").is_none(),
        "{env}"
    );
    for tool in ["web", "child"] {
        assert!(close(&pod, tool, ADA).await);
        assert!(!close(&pod, tool, ADA).await, "once is enough");
    }
    fleet.no_sessions().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_user_of_a_project_waits_and_then_gets_the_browser() {
    let kit = tools_or_skip!();
    let fleet = Fleet::new().await;
    let server = browser(&fleet, &kit, "{ project: 1 }", &[]).await;
    let before = processes_mentioning(server.directory()).unwrap().len();
    let pod = Arc::new(fleet.pod("a").await);
    assert!(text(&navigate(&pod, ADA).await).contains("Before"));
    browsers(&server, 1).await;
    let mut attempts = Attempts::from_now(&fleet).await;
    let second = tokio::spawn({
        let pod = Arc::clone(&pod);
        async move { navigate(&pod, BOB).await }
    });
    attempts.of("bob").await;
    assert!(text(&navigate(&pod, ADA).await).contains("Before"));
    assert!(!second.is_finished());
    assert!(close(&pod, "browser", ADA).await);
    assert!(text(&second.await.unwrap()).contains("Before"));
    assert_eq!(fleet.sessions().await.len(), 1);
    browsers(&server, 1).await;
    assert!(close(&pod, "browser", BOB).await);
    fleet.no_sessions().await;
    browsers(&server, 0).await;
    same_processes(server.directory(), before).await;
}

async fn same_processes(directory: &Path, before: usize) {
    eventually("as many processes as before", SOON, async || {
        Ok(processes_mentioning(directory)?.len() == before)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_users_second_project_waits() {
    let kit = tools_or_skip!();
    let fleet = Fleet::new().await;
    let server = browser(&fleet, &kit, "{ user: 1 }", &[]).await;
    let pod = Arc::new(fleet.pod("a").await);
    let elsewhere = Whose {
        project: "paper",
        user: "ada",
    };
    assert!(text(&navigate(&pod, ADA).await).contains("Before"));
    let mut attempts = Attempts::from_now(&fleet).await;
    let second = tokio::spawn({
        let pod = Arc::clone(&pod);
        async move { navigate(&pod, elsewhere).await }
    });
    attempts.of("ada").await;
    assert!(
        text(&navigate(&pod, BOB).await).contains("Before"),
        "another user does not wait"
    );
    assert!(!second.is_finished());
    assert!(close(&pod, "browser", ADA).await);
    assert!(text(&second.await.unwrap()).contains("Before"));
    assert!(close(&pod, "browser", elsewhere).await && close(&pod, "browser", BOB).await);
    fleet.no_sessions().await;
    browsers(&server, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_revoke_ends_the_browser() {
    let kit = tools_or_skip!();
    let fleet = Fleet::new().await;
    let server = browser(&fleet, &kit, "{ project: 1 }", &[]).await;
    let (pod, other) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    assert!(text(&navigate(&pod, ADA).await).contains("Before"));
    browsers(&server, 1).await;
    let revoked = fleet.session_of("ada").await;
    // By a pod that does not hold it.
    other.revoke(&revoked).await;
    fleet.gone(&revoked).await;
    browsers(&server, 0).await;
    // The next call is a new session, under a new lease.
    assert!(text(&navigate(&pod, ADA).await).contains("Before"));
    assert_ne!(fleet.session_of("ada").await, revoked);
    assert!(close(&pod, "browser", ADA).await);
    browsers(&server, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn browser_of_a_killed_pod_is_ended_by_another() {
    let kit = tools_or_skip!();
    let fleet = Fleet::new().await;
    // With an event stream the server would notice by itself.
    let alone = [("eventStream", json!(false))];
    let server = browser(&fleet, &kit, "{ project: 1 }", &alone).await;
    let (mut pod, other) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    in_touch(&fleet, &other).await;
    assert!(text(&navigate(&pod, ADA).await).contains("Before"));
    browsers(&server, 1).await;
    let left = fleet.session_of("ada").await;
    pod.kill();
    assert_eq!(server.browsers().unwrap(), 1);
    fleet.gone(&left).await;
    browsers(&server, 0).await;
    assert!(
        other
            .log()
            .contains("ended the session of a revoked lease with a DELETE"),
        "{}",
        other.log()
    );
    let deleted = crate::asking::metric(&other, r#"vance_mcp_delete{outcome="gone"}"#).await;
    assert_eq!(deleted, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_child_of_a_paused_pod_is_gone_soon_after_it_wakes() {
    let kit = tools_or_skip!();
    let fleet = Fleet::new().await;
    let directory = tempfile::Builder::new().prefix("mcp-").tempdir().unwrap();
    let command = kit
        .playwright_stdio(directory.path(), Profile::Isolated)
        .unwrap();
    fleet
        .define("browser", "levels: { project: 1 }\nttlSeconds: 600")
        .await;
    let child = json!({
        "transport": "stdio", "command": command, "initTimeoutSeconds": INIT_SECONDS, "lease": "browser"
    });
    fleet.tool("browser", &child).await;
    let (pod, other) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    in_touch(&fleet, &other).await;
    assert!(text(&navigate(&pod, ADA).await).contains("Before"));
    assert_eq!(browsers_of(directory.path()).unwrap(), 1);
    let left = fleet.session_of("ada").await;
    pod.pause();
    // To the others it is dead, and with it what is bound to it.
    fleet.gone(&left).await;
    assert_eq!(browsers_of(directory.path()).unwrap(), 1);
    pod.resume();
    same_processes(directory.path(), 0).await;
    let reply = post(&pod, "/internal/mcp/browser/close", &super::of(ADA)).await;
    assert!(reply.status.is_success(), "{reply:?}");
}
