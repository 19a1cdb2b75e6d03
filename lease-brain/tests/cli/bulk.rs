//! `revoke-pod` and `sweep`: shown before, reported after.

use std::time::Duration;

use mongodb::bson::doc;
use serde_json::json;
use test_mongo::{Mongod, TestMongo};

use crate::{
    brain::{Brain, NO_POD, pretend},
    receiver::{Raw, Receiver},
    revoke::Following,
    support::{SOON, World, until},
};

async fn world() -> World {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 99 }\nttlSeconds: 600")
        .await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_of_a_pod_is_shown_then_revoked_and_counted() {
    let world = world().await;
    let brain = Brain::start(&world, "a");
    pretend(&world, "gone", "http://127.0.0.1:1", "STARTING").await;
    let hangs = Raw::hanging_after("").await;
    let mut tokens = Vec::new();
    for user in ["ada", "bob"] {
        tokens.push(world.webhook(user, &hangs.url("/"), NO_POD).await);
    }
    let bound = doc! { "podBound": true, "slotReturn": "AT_ONCE" };
    world.change(&tokens[1], bound).await;
    let others = world.webhook("eve", &hangs.url("/"), &brain.pod).await;

    let dry = world.lease(&["revoke-pod", NO_POD, "--dry-run"]);
    dry.assert(0, "");
    let mut table = dry.table();
    assert_eq!(table.pop().unwrap(), ["2 would be revoked"]);
    table[1..].sort_by(|a, b| a[2].cmp(&b[2]));
    assert_eq!(
        table,
        [
            &[
                "TOKEN",
                "RESOURCE",
                "TENANT/PROJECT/USER",
                "HOLDER",
                "AGE",
                "STATE",
                "WHAT HAPPENS"
            ][..],
            &[
                "TOKEN",
                "pdf",
                "acme/thesis/ada",
                "job of ada",
                "DURATION",
                "HELD",
                "its pod is alive: its handler runs there, or in another brain if that pod does not do it; the slot comes back \
                 after that",
            ],
            &[
                "TOKEN",
                "pdf",
                "acme/thesis/bob",
                "job of bob",
                "DURATION",
                "HELD",
                "its pod is alive: its handler runs there and nowhere else; the slot comes back at once",
            ],
        ]
    );
    let dry = world.lease(&["revoke-pod", NO_POD, "--dry-run", "--json"]);
    assert_eq!(dry.json().as_array().unwrap().len(), 2);
    let refused = world.operator(&["revoke-pod", NO_POD]);
    assert_eq!(
        (refused.code, &*refused.stdout),
        (Some(64), ""),
        "{refused:?}"
    );
    let last = refused.stderr.lines().last().unwrap();
    assert_eq!(
        last,
        "lease: there is no terminal to ask on, so nothing was done: add --yes if you mean it: Revoke these 2?"
    );
    let held = |world: &World| world.lease(&["list", "--state", "held", "--json"]).json();
    assert_eq!(held(&world).as_array().unwrap().len(), 3, "all are held");

    let done = world.operator(&["revoke-pod", NO_POD, "--yes", "--reason", "drained"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let counts = "2 revoked (1 clean-up pending), 0 not held any more, 0 failed\n";
    assert_eq!(done.stdout, counts);
    assert_eq!(held(&world)[0]["token"], others, "of another pod");
    let noted = doc! { "revocation.note": "drained" };
    assert_eq!(world.holders().count_documents(noted).await.unwrap(), 2);

    let again = world.operator(&["revoke-pod", NO_POD, "--yes", "--json"]);
    let nothing = format!("lease: pod {NO_POD} holds nothing\n");
    again.assert(0, &nothing);
    let facts = json!({
        "pod": NO_POD, "total": 0, "revoked": 0, "cleanupPending": 0, "gone": 0, "left": 0, "failed": [],
    });
    assert_eq!(again.json(), facts);
    let unknown = world.operator(&["revoke-pod", "nobody", "--yes"]);
    let problem = "no pod nobody, and nothing is held under that id: `lease pods` shows the pods and their ids";
    assert_eq!(unknown.error(78), problem);
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_that_did_not_do_all_has_its_own_code() {
    let world = world().await;
    let brain = Brain::start(&world, "a");
    pretend(&world, "gone", "http://127.0.0.1:1", "STARTING").await;
    let token = world.acquire(&["pdf"]);
    // A holder that cannot be read is revoked, and what it books is not known.
    let odd = doc! { "pod": NO_POD, "levels": 7, "type": "webhook" };
    world.change(&token, odd).await;
    let other = world.webhook("bob", "http://127.0.0.1:1/", NO_POD).await;
    let done = world.operator(&["revoke-pod", NO_POD, "--yes"]);
    assert_eq!(done.code, Some(77), "{done:?}");
    let counts = "1 revoked (1 clean-up pending), 0 not held any more, 1 failed\n";
    assert_eq!(done.stdout, counts);
    let failed = format!("lease: failed: {token}: ");
    assert!(done.stderr.contains(&failed), "{done:?}");
    assert_ne!(token, other);
    drop(brain);
}

#[tokio::test(flavor = "multi_thread")]
async fn brain_that_dies_over_a_job_leaves_it_unknown_and_says_what_to_do() {
    let server = Mongod::start().await.unwrap();
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    let world = World { mongo };
    let mut brain = Brain::start(&world, "a");
    // So that the job does not end by itself.
    server.pause().unwrap();
    let working = Following::start(&world, &["sweep", "--brain", &brain.endpoint]);
    working.await_line(" sweeps (");
    brain.kill();
    let line = working.await_line("lease: what the job did is unknown, and to repeat it is safe: ");
    assert!(line.contains(&brain.endpoint), "{line}");
    assert_eq!(working.end().code, Some(69));
    server.resume().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_reports_what_it_took_back() {
    let world = World::new().await;
    // The brain's own rounds would be first.
    let brain = Brain::start_with(&world, "a", &["--reap-interval", "1h"]);
    world
        .define("pdf", "levels: { global: 99 }\nttlSeconds: 60")
        .await;
    let receiver = Receiver::answering(200).await;
    world.webhook("first", &receiver.url("/"), NO_POD).await;
    until(SOON, "the brain believes that pod dead", || {
        let swept = world.operator(&["sweep", "--json"]).json();
        (swept["pod"] == 1).then_some(())
    });
    world.webhook("dead", &receiver.url("/"), NO_POD).await;
    let idle = world.acquire(&["pdf", "--user", "idle"]);
    world.acquire(&["pdf", "--user", "fresh"]);
    let old = doc! { "lastSeenAt": mongodb::bson::DateTime::MIN };
    world.change(&idle, old).await;
    let orphan = doc! { "$push": { "tokens": "f".repeat(32) }, "$inc": { "count": 1 } };
    world.counters().update_one(doc! {}, orphan).await.unwrap();

    let swept = world.operator(&["sweep"]);
    assert_eq!(swept.code, Some(0), "{swept:?}");
    assert_eq!(
        // What was unbooked a moment ago may not be committed yet, and is then freed once more.
        swept.stdout.replace("freed 2 slots", "freed 1 slots"),
        "revoked 1 idle and 1 of dead pods, removed 0 acquires that never finished, finished 0 revoked commands, freed 1 slots \
         that nobody held, 0 with drift, 0 failed\n"
    );
    let again = world.operator(&["sweep", "--json"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let nothing = json!({
        "idle": 0, "pod": 0, "stale": 0, "finished": 0, "corrected": 0, "drift": [], "waiting": null, "failed": [],
        "complete": true,
    });
    assert_eq!(again.json(), nothing);
    drop(brain);
}

#[tokio::test(flavor = "multi_thread")]
async fn look_at_a_sweep_shows_each_lease_that_it_would_take_and_takes_none() {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 99 }\nttlSeconds: 60")
        .await;
    let old = mongodb::bson::DateTime::MIN;
    // In use, and being cleaned up by a handler that nobody hurries.
    let fresh = world.acquire(&["pdf", "--user", "fresh"]);
    let handled = world
        .webhook("handled", "http://127.0.0.1:1/", NO_POD)
        .await;
    world.fail_cleanup(&handled, "plug answered 500").await;
    world.change(&handled, doc! { "lastSeenAt": old }).await;
    let nothing = "would revoke 0 idle and 0 of dead pods, remove 0 acquires that never finished, finish 0 revoked commands\n";
    let look = "this was only a look: the sweep judges anew, and the brain that sweeps believes a pod dead only if it would have \
                heard it; what else it frees is shown by `lease reconcile --dry-run`\n";
    let none = world.lease(&["sweep", "--dry-run"]);
    none.assert(0, look);
    assert_eq!(none.stdout, nothing);

    // Idle, and its pod is dead as well: it is one lease.
    let idle = world.webhook("idle", "http://127.0.0.1:1/", NO_POD).await;
    let command = world.acquire(&["pdf", "--user", "command"]);
    let stale = world.acquire(&["pdf", "--user", "stale"]);
    let ended = world.acquire(&["pdf", "--user", "ended"]);
    for token in [&idle, &command, &stale, &ended] {
        world.change(token, doc! { "lastSeenAt": old }).await;
    }
    world.change(&stale, doc! { "state": "PENDING" }).await;
    world.change(&ended, doc! { "state": "REVOKING" }).await;
    let dead = world.webhook("dead", "http://127.0.0.1:1/", NO_POD).await;
    // What no pod can be called is nobody's.
    let odd = world
        .webhook("odd", "http://127.0.0.1:1/", &"x".repeat(129))
        .await;
    let before = world.stored().await;
    let dry = world.lease(&["sweep", "--dry-run"]);
    dry.assert(0, look);
    let mut table = dry.table();
    table[1..3].sort_by(|a, b| a[2].cmp(&b[2]));
    let cells: Vec<_> = table
        .iter()
        .map(|row| [2, 6, 7].map(|cell| row.get(cell).map_or("", |it| it)))
        .collect();
    let at_once = "it is removed; the slot comes back at once";
    let by_brain = "its pod is dead: its handler runs in a brain; the slot comes back after that";
    assert_eq!(
        cells[..6],
        [
            ["TENANT/PROJECT/USER", "WHY", "WHAT HAPPENS"],
            [
                "acme/thesis/command",
                "idle",
                "no handler; the slot comes back at once"
            ],
            ["acme/thesis/idle", "idle", by_brain],
            ["acme/thesis/dead", "its pod looks dead", by_brain],
            ["acme/thesis/stale", "its acquire never finished", at_once],
            [
                "acme/thesis/ended",
                "revoked, and its time has run out",
                at_once
            ],
        ]
    );
    let counts = "would revoke 2 idle and 1 of dead pods, remove 1 acquires that never finished, finish 1 revoked commands";
    assert_eq!(table[6..], [[counts]]);
    let json = world.lease(&["sweep", "--dry-run", "--json"]);
    json.assert(0, "");
    let facts = json.json();
    assert_eq!(facts["idle"].as_array().unwrap().len(), 2);
    for (kind, token) in [("pod", &dead), ("stale", &stale), ("finished", &ended)] {
        let tokens: Vec<_> = facts[kind]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["token"])
            .collect();
        assert_eq!(tokens, [token], "{kind}");
    }
    assert_eq!(world.stored().await, before, "nothing has changed");

    // The sweep itself takes these, and no others.
    let _brain = Brain::start_with(&world, "a", &["--reap-interval", "1h"]);
    let (mut idle, mut pods) = (0, 0);
    until(SOON, "the brain believes that pod dead", || {
        let swept = world.operator(&["sweep", "--json"]).json();
        idle += swept["idle"].as_u64().unwrap();
        pods += swept["pod"].as_u64().unwrap();
        (pods > 0).then_some(())
    });
    assert_eq!((idle, pods), (2, 1));
    let listed = world.lease(&["list", "--state", "held", "--json"]).json();
    let listed = listed.as_array().unwrap().iter();
    let mut held: Vec<_> = listed.map(|it| it["token"].as_str().unwrap()).collect();
    held.sort_unstable();
    let mut left = [&*fresh, &odd];
    left.sort_unstable();
    assert_eq!(held, left);
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_that_could_not_do_all_says_what_and_has_its_own_code() {
    let world = World::new().await;
    let _brain = Brain::start_with(&world, "a", &["--reap-interval", "1h"]);
    world
        .define("pdf", "levels: { global: 99 }\nttlSeconds: 60")
        .await;
    let token = world.acquire(&["pdf"]);
    world.age(Duration::from_secs(100)).await;
    world.change(&token, doc! { "type": 7 }).await;
    let swept = world.operator(&["sweep"]);
    assert_eq!(swept.code, Some(77), "{swept:?}");
    assert!(swept.stdout.ends_with(" 1 failed\n"), "{swept:?}");
    assert!(swept.stderr.contains("lease: failed: "), "{swept:?}");
    world.change(&token, doc! { "state": "HELD" }).await;
    let json = world.operator(&["sweep", "--json"]);
    assert_eq!(json.code, Some(77), "{json:?}");
    assert_eq!(json.json()["failed"].as_array().unwrap().len(), 1);
}
