//! What others have written, however odd, neither steers the terminal nor hides the rest.

use mongodb::bson::{Document, doc};

use crate::support::{Output, World};

/// Clears the screen, sets the title, changes the direction of writing, ends the line.
const HOSTILE: &str = "\x1b[2J\x1b]0;title\x07 \u{202e}evil\u{9b}31m\r\nlease: all is well\t\x7f";

/// Two leases of `pdf`; what people may write of themselves is hostile in one of them.
async fn world() -> (World, String) {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 2, user: 1 }").await;
    let token = world.acquire(&["pdf"]);
    let hostile = doc! { "$set": {
        "holderRef": HOSTILE, "lease": HOSTILE, "resource": HOSTILE, "projectId": HOSTILE, "userId": HOSTILE, "pod": HOSTILE,
        "payload": { HOSTILE: 1 },
    } };
    world.holders().update_many(doc! {}, hostile).await.unwrap();
    world.acquire(&["pdf", "--user", "bob"]);
    (world, token)
}

#[track_caller]
fn assert_harmless(output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        let raw = |c: char| c != '\n' && (c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c));
        assert!(!text.contains(raw), "{output:?}");
        assert!(
            !text
                .lines()
                .any(|line| line.starts_with("lease: all is well"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_characters_reach_no_terminal() {
    let (world, token) = world().await;
    let counters = doc! { "$set": { "userId": HOSTILE, "resource": HOSTILE } };
    world
        .counters()
        .update_many(doc! { "level": "user" }, counters)
        .await
        .unwrap();
    let id = mongodb::bson::Uuid::new().to_string();
    let now = mongodb::bson::DateTime::MIN;
    let pod = doc! {
        "_id": id, "clusterId": HOSTILE, "nodeName": HOSTILE, "endpoint": HOSTILE, "status": "RUNNING", "bootedAt": now,
        "lastHeartbeatAt": now, "writtenAt": now, "staleMillis": 1, "version": HOSTILE, "labels": { "x": HOSTILE },
    };
    let unreadable = doc! { "_id": HOSTILE };
    world.pods().insert_many([pod, unreadable]).await.unwrap();
    let hostile = doc! { "$set": { "state": "REVOKING", "revocation": {
        "reason": "revoke", "at": now, "attempts": 1, "failed": true, "lastError": HOSTILE, "note": HOSTILE, "nextTryAt": now,
        "claim": { "id": HOSTILE, "by": HOSTILE, "until": mongodb::bson::DateTime::MAX },
    } } };
    let its = doc! { "_id": &token };
    world.holders().update_one(its, hostile).await.unwrap();
    for args in [
        &["list"][..],
        &["show", &token],
        &["counters"],
        &["pods"],
        &["pods", "--json"],
        &["cleanup", "list"],
        &["cleanup", "abandon", &token, "--dry-run"],
    ] {
        let output = world.lease(args);
        assert_eq!(output.code, Some(0), "{output:?}");
        let escaped = ["\\u{1b}[2J", "\\u001b[2J"];
        assert!(
            escaped.iter().any(|it| output.stdout.contains(it)),
            "{output:?}"
        );
        assert_harmless(&output);
    }
    // The oldest holder is part of the refusal, if its names are such as can be.
    let possible = doc! { "$set": { "projectId": "thesis", "userId": "ada" } };
    let its = doc! { "_id": &token };
    world.holders().update_one(its, possible).await.unwrap();
    let busy = world.lease(&["acquire", "pdf", "--user", "eve", "--wait", "0s"]);
    assert!(busy.error(75).contains("\\u{1b}[2J"), "{busy:?}");
    assert_harmless(&busy);
    // For scripts it is all there.
    let json = world.lease(&["show", &token, "--json"]);
    assert_eq!(json.json()["holderRef"], HOSTILE);
    assert_harmless(&json);
    let forced = world.lease(&["revoke", &token, "--force", "--yes"]);
    assert_eq!(forced.code, Some(79), "{forced:?}");
    assert!(forced.stdout.contains("\\u{1b}[2J"), "{forced:?}");
    assert_harmless(&forced);
    let asked = world.lease(&["revoke", &token, "--force"]);
    assert!(asked.error(64).contains("\\u{1b}[2J"), "{asked:?}");
    assert_harmless(&asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_characters_in_the_words_of_reconcile_are_escaped() {
    let world = World::new().await;
    let counter = doc! {
        "_id": HOSTILE, "resource": HOSTILE, "level": "global", "lease": "pdf", "cap": 1, "count": 7, "tokens": [HOSTILE],
        "updatedAt": mongodb::bson::DateTime::MIN,
    };
    world.counters().insert_one(counter).await.unwrap();
    world
        .counters()
        .insert_one(doc! { "_id": format!("{HOSTILE}2") })
        .await
        .unwrap();
    for args in [
        &["reconcile", "--dry-run"][..],
        &["reconcile"],
        &["counters"],
    ] {
        let output = world.lease(args);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(
            (output.stdout.clone() + &output.stderr).contains("\\u{1b}[2J"),
            "{output:?}"
        );
        assert_harmless(&output);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_holders_are_reported_and_do_not_hide_the_others() {
    let (world, token) = world().await;
    let corrupt: [Document; 3] = [
        doc! { "_id": "0".repeat(32), "state": "HELD", "ttlSeconds": 1 },
        doc! { "_id": HOSTILE, "state": "HELD" },
        doc! { "_id": 7, "state": { HOSTILE: 1 } },
    ];
    world.holders().insert_many(corrupt).await.unwrap();
    let table = world.lease(&["list"]);
    let json = world.lease(&["list", "--json"]);
    let counters = world.lease(&["counters"]);
    for output in [&table, &json, &counters] {
        assert_eq!(output.code, Some(0));
        assert_harmless(output);
        let lines: Vec<_> = output.stderr.lines().collect();
        let warnings = lines
            .iter()
            .filter(|it| it.starts_with("lease: warning: not shown: holder "));
        assert_eq!(warnings.count(), 3, "{output:?}");
    }
    assert_eq!(table.stdout.lines().count(), 3);
    assert_eq!(json.json().as_array().unwrap().len(), 2);
    world.lease(&["show", &token]).assert(0, "");
    let show = world.lease(&["show", &"0".repeat(32)]);
    let begins = format!("lease {} (HELD) cannot be read: ", "0".repeat(32));
    assert!(show.error(78).starts_with(&begins), "{show:?}");
}
