//! `cleanup`, `--force`, and what the views say of clean-ups.

use mongodb::bson::doc;
use serde_json::{Value, json};

use crate::{
    brain::{Brain, NO_POD},
    receiver::{Raw, Receiver},
    support::{Output, SOON, World, until},
};

const NOBODY: &str = "lease: warning: no pod is alive, so nobody runs clean-ups: start a brain\n";

async fn world() -> World {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 99 }\nttlSeconds: 600")
        .await;
    world
}

#[track_caller]
fn row(output: &Output, field: &str) -> String {
    let table = output.table();
    let row = table.iter().find(|row| row[0] == field);
    row.unwrap_or_else(|| panic!("no {field}: {output:?}"))[1].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_cleanup_is_listed_retried_and_done() {
    let world = world().await;
    let none = world.lease(&["cleanup", "list"]);
    none.assert(0, "no clean-ups match\n");
    assert_eq!(world.lease(&["cleanup", "list", "--json"]).stdout, "[]\n");
    let receiver = Receiver::answering(200).await;
    let token = world.webhook("ada", &receiver.url("/off"), NO_POD).await;
    world.fail_cleanup(&token, "plug answered 500").await;

    let listed = world.lease(&["cleanup", "list", "--failed"]);
    listed.assert(0, NOBODY);
    assert_eq!(
        listed.table(),
        [
            &[
                "TOKEN",
                "RESOURCE",
                "TYPE",
                "TENANT/PROJECT",
                "POD",
                "REASON",
                "PHASE",
                "ATTEMPTS",
                "NEXT TRY",
                "LAST ERROR"
            ][..],
            &[
                "TOKEN",
                "pdf",
                "webhook",
                "acme/thesis",
                "1f0c9a6e (dead)",
                "revoke",
                "failed",
                "10",
                "in 50m",
                "plug answered 500"
            ],
        ]
    );
    let json = world.lease(&["cleanup", "list", "--json"]).json();
    assert_eq!(
        (
            &json[0]["token"],
            &json[0]["cleanup"]["phase"],
            &json[0]["podAlive"]
        ),
        (&json!(token), &json!("failed"), &json!(false))
    );
    for none in [&["--tenant", "x"][..], &["--type", "x"], &["--pod", "x"]] {
        let listed = world.lease(&[&["cleanup", "list", "--json"], none].concat());
        assert_eq!(listed.stdout, "[]\n", "{none:?}");
    }
    let leases = world.lease(&["list"]);
    leases.assert(
        0,
        "0 revocations wait for their clean-up, 1 failed: `lease cleanup list`\n",
    );
    assert_eq!(leases.table()[1][2], "REVOKING (clean-up failed)");

    let dry = world.lease(&["cleanup", "retry", "--all-failed", "--dry-run"]);
    dry.assert(0, "");
    let shown = [
        "TOKEN",
        "pdf",
        "webhook",
        "acme/thesis/ada",
        "failed",
        "10",
        "plug answered 500",
        "its pod is dead: its handler runs in a brain; the slot comes back after that",
    ];
    assert_eq!(dry.table()[1..], [&shown[..], &["1 would be tried again"]]);
    let dry = world.lease(&["cleanup", "retry", &token, "--dry-run", "--json"]);
    assert_eq!(dry.json()[0]["token"], token);
    let leases = world.lease(&["list"]);
    assert_eq!(leases.table()[1][2], "REVOKING (clean-up failed)");

    let retried = world.lease(&["cleanup", "retry", "--all-failed"]);
    retried.assert(0, NOBODY);
    assert_eq!(retried.stdout, format!("{token} is tried again now\n"));
    let leases = world.lease(&["list"]);
    leases.assert(
        0,
        "1 revocation waits for its clean-up, 0 failed: `lease cleanup list`\n",
    );
    assert_eq!(leases.table()[1][2], "REVOKING (clean-up waiting)");
    let _brain = Brain::start(&world, "a");
    world.until_nothing_is_stored();
    assert_eq!(receiver.seen().len(), 1);
    let gone = world.lease(&["cleanup", "retry", &token]);
    let nothing = format!("no clean-up of {token}: it is done, or never was");
    assert_eq!(gone.error(76), nothing);
    for more in [&[][..], &["--dry-run"], &["--yes"]] {
        let none = world.lease(&[&["cleanup", "retry", "--all-failed"], more].concat());
        none.assert(0, "no clean-up is marked as failed\n");
        assert_eq!(none.stdout, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_failed_is_nothing_else_and_is_listed_first() {
    let world = world().await;
    let waiting = world.webhook("ada", "http://127.0.0.1:1/", NO_POD).await;
    world
        .lease(&["revoke", &waiting, "--force", "--yes"])
        .assert(79, "");
    let failed = world.webhook("bob", "http://127.0.0.1:1/", NO_POD).await;
    world.fail_cleanup(&failed, "plug answered 500").await;
    let tokens = |args: &[&str]| -> Vec<Value> {
        let listed = world.lease(&[args, &["--json"]].concat()).json();
        let listed = listed.as_array().unwrap().iter();
        listed.map(|it| it["token"].clone()).collect()
    };
    let both = [json!(failed), json!(waiting)];
    assert_eq!(tokens(&["cleanup", "list"]), both);
    assert_eq!(tokens(&["cleanup", "list", "--failed"]), both[..1]);
    let dry = ["cleanup", "abandon", "--all-failed", "--dry-run"];
    assert_eq!(tokens(&dry), both[..1]);
    let retried = world.lease(&["cleanup", "retry", "--all-failed", "--json"]);
    retried.assert(0, NOBODY);
    assert_eq!(
        retried.json(),
        json!({ "retried": both[..1], "refused": [] })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_been_due_for_a_minute_waits_for_a_pod_with_its_handler() {
    let world = world().await;
    let token = world.webhook("ada", "http://127.0.0.1:1/", NO_POD).await;
    world.fail_cleanup(&token, "no handler").await;
    let next_try = async |lease_type: &str, failed: bool, seconds_ago: i64| {
        let of = doc! { "$set": {
            "type": lease_type,
            "lastSeenAt": { "$subtract": ["$$NOW", 700_000] },
            "revocation.failed": { "$literal": failed },
            "revocation.nextTryAt": { "$subtract": ["$$NOW", seconds_ago * 1000] },
        } };
        let its = doc! { "_id": &token };
        world.holders().update_one(its, vec![of]).await.unwrap();
        let listed = world.lease(&["cleanup", "list"]).table()[1][8].clone();
        let shown = row(&world.lease(&["show", &token]), "next try");
        assert_eq!(listed, shown);
        shown
    };
    let waits = "when a pod with its handler comes";
    assert_eq!(next_try("bench", false, 90).await, waits);
    assert_eq!(next_try("bench", true, 90).await, waits);
    assert_eq!(next_try("bench", false, 20).await, "due");
    // It has no handler: whoever sweeps ends it.
    assert_eq!(next_try("command", false, 90).await, "due");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_to_be_retried_now_is_left_alone() {
    let world = world().await;
    let brain = Brain::start(&world, "a");
    let hangs = Raw::hanging_after("").await;
    let running = world.webhook("ada", &hangs.url("/"), &brain.pod).await;
    let ending = world.acquire(&["pdf", "--user", "bob"]);
    let held = world.acquire(&["pdf", "--user", "eve"]);
    for token in [&running, &ending] {
        world.operator(&["revoke", token]).assert(0, "");
    }
    until(SOON, "its handler", || {
        let shown = world.lease(&["show", &running]);
        shown.stdout.contains("running on pod").then_some(())
    });
    let refused = world.lease(&["cleanup", "retry", &running]);
    let pod = &brain.pod;
    let under_way = format!(
        "the clean-up of {running} is under way on pod {pod}, and cannot be tried again now"
    );
    assert_eq!(refused.error(75), under_way);
    let refused = world.lease(&["cleanup", "retry", &ending]);
    let begins = format!("the clean-up of {ending} waits for its holder's end, for ");
    assert!(refused.error(75).starts_with(&begins), "{refused:?}");
    let refused = world.lease(&["cleanup", "retry", &held]);
    let begins = format!("{held} is not being revoked, so there is nothing to clean up: ");
    assert!(refused.error(76).starts_with(&begins), "{refused:?}");
    let refused = world.lease(&["cleanup", "abandon", &held, "--yes"]);
    assert!(refused.error(76).starts_with(&begins), "{refused:?}");
    let dry = ["cleanup", "retry", &running, &held, "--dry-run"];
    let several = world.lease(&dry);
    assert_eq!(
        (several.code, &*several.stdout),
        (Some(77), ""),
        "{several:?}"
    );
    let first = several.stderr.lines().next().unwrap();
    assert_eq!(first, format!("lease: {under_way}"));
    let several = world.lease(&["cleanup", "retry", &running, &held, "--json"]);
    assert_eq!(several.code, Some(77), "{several:?}");
    assert_eq!(several.json()["retried"], json!([]));
    assert_eq!(several.json()["refused"][0], under_way);
    assert!(
        several
            .stderr
            .ends_with("lease: 2 of 2 were left as they are\n"),
        "{several:?}"
    );

    let phases = world.lease(&["list"]);
    let state = |user: &str| {
        let rows = phases.table();
        rows.iter().find(|row| row[5] == user).unwrap()[2].clone()
    };
    assert_eq!(
        ["ada", "bob", "eve"].map(state),
        [
            "REVOKING (clean-up running)",
            "REVOKING (waits for its holder's end)",
            "HELD"
        ]
    );
    let counters = world.lease(&["counters"]);
    assert_eq!(
        counters.table()[1],
        ["pdf", "global", "everybody", "3", "99", "3", "2"]
    );
    let json = world.lease(&["counters", "--json"]).json();
    assert_eq!(json[0]["awaitingCleanup"], 2);
    assert_eq!(json[0]["failed"], 0);
    world.fail_cleanup(&held, "plug answered 500").await;
    let counters = world.lease(&["counters"]);
    assert_eq!(counters.table()[1].last().unwrap(), "3 (1 failed)");
    let json = world.lease(&["counters", "--json"]).json();
    assert_eq!(
        (&json[0]["awaitingCleanup"], &json[0]["failed"]),
        (&json!(3), &json!(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_cleanup_frees_its_slot_and_tells_what_may_still_run() {
    let world = world().await;
    let token = world.webhook("ada", "http://127.0.0.1:1/", NO_POD).await;
    world.fail_cleanup(&token, "plug answered 500").await;
    let args = ["cleanup", "abandon", "--all-failed"];
    let dry = world.lease(&[&args[..], &["--dry-run"]].concat());
    dry.assert(0, "");
    let table = dry.table();
    let row = [
        "TOKEN",
        "pdf",
        "webhook",
        "acme/thesis/ada",
        "failed",
        "plug answered 500",
        "its resource pdf may still be in use",
    ];
    assert_eq!(
        (&table[1][..], &table[2][..]),
        (
            &row.map(str::to_owned)[..],
            &["1 would be given up".to_owned()][..]
        )
    );
    let refused = world.lease(&args);
    assert_eq!(
        (refused.code, &*refused.stdout),
        (Some(64), ""),
        "{refused:?}"
    );
    let last = "lease: there is no terminal to ask on, so nothing was done: add --yes if you mean it: Give up these 1, whatever \
                still runs?\n";
    assert!(refused.stderr.ends_with(last), "{refused:?}");
    assert_eq!(world.stored().await, (1, 1), "nothing has changed");
    let json = world
        .lease(&[&args[..], &["--dry-run", "--json"]].concat())
        .json();
    assert_eq!(json[0]["token"], token);

    let done = world.lease(&[&args[..], &["--yes"]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    let line =
        format!("{token} given up, its slots are free: its resource pdf may still be in use\n");
    assert_eq!(done.stdout, line);
    assert_eq!(world.stored().await, (0, 0));
    let again = world.lease(&["cleanup", "abandon", &token, "--yes"]);
    again.error(76);

    let token = world.webhook("bob", "http://127.0.0.1:1/", NO_POD).await;
    world.fail_cleanup(&token, "plug answered 500").await;
    let missing = "0".repeat(32);
    let json = world.lease(&["cleanup", "abandon", &token, &missing, "--yes", "--json"]);
    assert_eq!(json.code, Some(77), "{json:?}");
    let report = json!({
        "abandoned": [{ "token": token, "mayStillRun": "its resource pdf may still be in use" }],
        "refused": [format!("no clean-up of {missing}: it is done, or never was")],
    });
    assert_eq!(json.json(), report);
}

#[tokio::test(flavor = "multi_thread")]
async fn force_frees_the_slot_without_a_brain_and_the_handler_runs_when_one_is_back() {
    let world = world().await;
    let receiver = Receiver::answering(200).await;
    let token = world.webhook("ada", &receiver.url("/off"), NO_POD).await;
    let refused = world.lease(&["revoke", &token, "--force"]);
    let question = "there is no terminal to ask on, so nothing was done: add --yes if you mean it: Free the slot of pdf \
                    (acme/thesis/ada, job of ada) at once, although its resource pdf may still be in use?";
    assert_eq!(refused.error(64), question);
    assert_eq!(world.stored().await, (1, 1));

    let forced = world.lease(&["revoke", &token, "--force", "--yes", "--reason", "fire"]);
    forced.assert(79, "");
    assert_eq!(
        forced.stdout,
        format!(
            "{token} forced: the slot is free; its handler (type webhook) was not run and runs when a brain is back; until \
             then: its resource pdf may still be in use\n"
        )
    );
    assert_eq!(
        world.stored().await,
        (1, 0),
        "the slot is free, the clean-up is not forgotten"
    );
    let shown = world.lease(&["show", &token]);
    shown.assert(0, "");
    for (field, value) in [
        ("state", "REVOKING (clean-up waiting)"),
        (
            "on the revocation",
            "its pod is dead: its handler runs in a brain; the slot comes back at once",
        ),
        ("clean-up", "waiting"),
        ("attempts", "0"),
        ("next try", "due"),
        ("note", "fire"),
        ("forced", "the slots came back at once, whatever still ran"),
    ] {
        assert_eq!(row(&shown, field), value);
    }
    let again = world.lease(&["revoke", &token, "--force", "--yes", "--json"]);
    again.assert(79, "");
    let report = json!({
        "token": token, "outcome": "forced", "slot": "free", "cleanup": "pending", "type": "webhook",
        "skipped": "its handler (type webhook) was not run and runs when a brain is back",
        "mayStillRun": "its resource pdf may still be in use",
    });
    assert_eq!(again.json(), report);

    let _brain = Brain::start(&world, "a");
    world.until_nothing_is_stored();
    assert_eq!(receiver.seen().len(), 1);
    world
        .lease(&["revoke", &token, "--force", "--yes"])
        .error(76);
}

#[tokio::test(flavor = "multi_thread")]
async fn force_on_a_pod_says_for_each_lease_what_was_skipped() {
    let world = world().await;
    let handled = world.webhook("ada", "http://127.0.0.1:1/", NO_POD).await;
    let bound = world.webhook("bob", "http://127.0.0.1:1/", NO_POD).await;
    world.change(&bound, doc! { "podBound": true }).await;
    let other = world.webhook("eve", "http://127.0.0.1:1/", "other").await;
    let refused = world.lease(&["revoke-pod", NO_POD, "--force"]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert_eq!(world.stored().await, (3, 3));
    let forced = world.lease(&["revoke-pod", NO_POD, "--force", "--yes"]);
    assert_eq!(forced.code, Some(79), "{forced:?}");
    let mut lines: Vec<_> = forced.stdout.lines().collect();
    assert_eq!(lines.pop(), Some("2 forced, 0 not held any more, 0 failed"));
    let line = |token: &str| *lines.iter().find(|line| line.starts_with(token)).unwrap();
    assert!(line(&handled).ends_with("until then: its resource pdf may still be in use"));
    assert!(line(&bound).ends_with("until then: nothing: its resource died with its pod"));
    assert_eq!(world.stored().await, (3, 1));
    assert_eq!(
        world.lease(&["list", "--state", "held", "--json"]).json()[0]["token"],
        other
    );

    let again = world.lease(&["revoke-pod", NO_POD, "--force", "--yes", "--json"]);
    assert_eq!(again.code, Some(0), "nothing is left to force: {again:?}");
    assert_eq!(again.json()["forced"], json!([]));

    // One that cannot be read is not forced, and hides no other.
    let odd = world.webhook("odd", "http://127.0.0.1:1/", NO_POD).await;
    world.change(&odd, doc! { "levels": 7 }).await;
    world.webhook("joe", "http://127.0.0.1:1/", NO_POD).await;
    let partial = world.lease(&["revoke-pod", NO_POD, "--force", "--yes"]);
    assert_eq!(partial.code, Some(77), "{partial:?}");
    assert!(
        partial
            .stdout
            .ends_with("1 forced, 0 not held any more, 1 failed\n"),
        "{partial:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_in_words_follows_the_dispatch_matrix() {
    let world = world().await;
    let brain = Brain::start(&world, "a");
    let token = world
        .webhook("ada", "http://127.0.0.1:1/", &brain.pod)
        .await;
    let alive = "its pod is alive: its handler runs there, or in another brain if that pod does not do it; the slot comes back \
                 after that";
    let bound =
        "its pod is alive: its handler runs there and nowhere else; the slot comes back after that";
    let nowhere = "its handler runs in a brain, when its holder has ended or its time has run out; the slot comes back after that";
    let shown = |world: &World| row(&world.lease(&["show", &token]), "on a revocation");
    assert_eq!(shown(&world), alive);
    world.change(&token, doc! { "podBound": true }).await;
    assert_eq!(shown(&world), bound);
    drop(brain);
    until(SOON, "its death", || {
        (shown(&world) == "nothing to clean up: its resource died with its pod; the slot comes back after that").then_some(())
    });
    let none = doc! { "$unset": { "pod": "" }, "$set": { "podBound": false } };
    world.holders().update_one(doc! {}, none).await.unwrap();
    assert_eq!(shown(&world), nowhere);
    let shown: Value = world.lease(&["show", &token, "--json"]).json();
    assert_eq!(shown["cleanup"], Value::Null);
}
