//! What a start waits for, and what it refuses.

use std::net::TcpListener;
use std::process::Command;

use reqwest::StatusCode;
use serde_json::json;
use test_mongo::{FailCommand, Mongod, TestMongo, eventually};

use super::process::Process;
use crate::fleet::{Fleet, SECRET, SOON};
use crate::insights::tokens;

fn database(mongo: &TestMongo) -> String {
    format!("--database={}", mongo.name())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_a_start_serves_says_that_it_knows_nothing_and_goes_on_by_itself() {
    let mut server = Mongod::start().await.unwrap();
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    server.stop().await.unwrap();
    let brain = Process::start(&server.uri(), &[&database(&mongo)]);
    assert_eq!(brain.get("/healthz").await.status, StatusCode::OK);
    for path in ["/readyz", "/metrics", "/internal/lease/admin/jobs/0"] {
        let reply = brain.get(path).await;
        assert_eq!(reply.refusal(), (503, "UNKNOWN".to_owned()), "{path}");
        assert!(!reply.text.contains("vance_lease_holders"), "{reply:?}");
    }
    server.restart().await.unwrap();
    eventually("it is ready", SOON, || async {
        Ok(brain.get("/readyz").await.status == StatusCode::OK)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_a_tenant_is_told_that_nothing_is_known_and_not_that_nothing_is_held()
 {
    let mut server = Mongod::start().await.unwrap();
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    server.stop().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, tokens::SECRET).unwrap();
    let secret = format!("--jwt-secret-file={}", path.display());
    let brain = Process::start(&server.uri(), &[&database(&mongo), &secret]);
    let token = tokens::token(json!({}));
    let (bearer, cookie) = (format!("Bearer {token}"), format!("lease_insights={token}"));
    let views = ["holders", "counters", "revocations", "overview"];
    for view in views {
        let path = format!("/api/insights/acme/{view}");
        let reply = brain.get_with(&path, "authorization", &bearer).await;
        assert_eq!(reply.refusal(), (503, "UNKNOWN".to_owned()), "{path}");
    }
    let pages = views.map(|view| match view {
        "overview" => "/insights/acme".to_owned(),
        view => format!("/insights/acme/{view}"),
    });
    for path in &pages {
        let reply = brain.get_with(path, "cookie", &cookie).await;
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(reply.text.contains("is not known now"), "{}", reply.text);
        assert!(!reply.text.contains("<table"), "{}", reply.text);
    }
    server.restart().await.unwrap();
    eventually("it is ready", SOON, || async {
        Ok(brain.get("/readyz").await.status == StatusCode::OK)
    })
    .await
    .unwrap();
    for view in views {
        let path = format!("/api/insights/acme/{view}");
        let reply = brain.get_with(&path, "authorization", &bearer).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}: {reply:?}");
    }
    for path in &pages {
        let reply = brain.get_with(path, "cookie", &cookie).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_the_store_says_where_and_no_password() {
    let uri = "mongodb://ada:hunter2-of-a-test@127.0.0.1:1,127.0.0.1:2/?replicaSet=rs0";
    let brain = Process::start(uri, &[]);
    eventually("it waits", SOON, || async {
        let log = brain.log();
        let mut lines = log.lines();
        Ok(lines.any(|line| {
            line.contains("waiting for the store") && line.contains("127.0.0.1:1,127.0.0.1:2")
        }))
    })
    .await
    .unwrap();
    assert!(!brain.log().contains("hunter2-of-a-test"));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_right_ends_a_start_at_once_in_one_line() {
    let server = Mongod::start().await.unwrap();
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    for command in ["createIndexes", "update", "delete", "find", "findAndModify"] {
        let denied = FailCommand::on(&[command])
            .app_name("brain-under-test")
            .error_code(13);
        let denied = denied.set(&server.uri()).await.unwrap();
        let uri = format!("{}&appName=brain-under-test", server.uri());
        let mut brain = Process::start(&uri, &[&database(&mongo)]);
        let said = brain.refused(1).await;
        assert!(said.starts_with("brain: "), "{command}: {said}");
        assert!(said.contains("code 13"), "{command}: {said}");
        denied.off().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_password_ends_a_start_and_is_shown_nowhere() {
    let server = Mongod::start().await.unwrap();
    let uri = server.uri().replace("//", "//ada:hunter2-of-a-test@");
    let mut brain = Process::start(&uri, &[]);
    let said = brain.refused(1).await;
    assert!(said.to_lowercase().contains("authenticat"), "{said}");
    for secret in ["hunter2-of-a-test", SECRET] {
        assert!(!brain.log().contains(secret), "{}", brain.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn port_that_is_taken_is_refused_in_one_line() {
    let mongo = TestMongo::new().await.unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    let said = Process::start(mongo.uri(), &[&listen]).refused(1).await;
    assert!(said.contains("choose another --listen"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn name_of_a_living_pod_is_refused_in_one_line() {
    let fleet = Fleet::new().await;
    let living = fleet.pod("a").await;
    let second = ["--node-name=a", &database(&fleet.mongo)];
    let said = Process::start(fleet.mongo.uri(), &second).refused(1).await;
    assert!(said.contains(living.id.as_str()), "{said}");
    assert!(said.contains("another --node-name"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_refused_before_anything_is_asked() {
    for (args, expected) in [
        (&["--stale=1s"][..], "--stale"),
        (&["--reap-interval=0s"], "--reap-interval"),
        (&["--listen=0.0.0.0:0"], "--advertise"),
        (&["--internal-token-file=/no/such/file"], "keep one"),
        (&["--secrets-dir=/no/such/folder"], "--secrets-dir"),
    ] {
        let mut brain = Process::start("mongodb://127.0.0.1:1", args);
        let said = brain.refused(64).await;
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    let mut brain = Process::start("mongodb://127.0.0.1:1", &["--no-such-option"]);
    assert_eq!(brain.ended(SOON).await.code(), Some(64));
    let mut brain = Process::start("mongodb://:@:pa ss@/", &[]);
    let said = brain.refused(64).await;
    assert!(said.contains("MongoDB URI is not usable"), "{said}");
}

#[test]
fn it_listens_on_loopback_unless_told_otherwise() {
    let help = Command::new(env!("CARGO_BIN_EXE_brain"))
        .arg("--help")
        .env_clear()
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("[default: 127.0.0.1:7311]"), "{help}");
}
