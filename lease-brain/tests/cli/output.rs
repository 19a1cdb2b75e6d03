//! `list`, `show`, `counters` and `reconcile`: for people and for scripts.

use mongodb::bson::doc;
use serde_json::{Value, json};

use crate::support::World;

/// Replaces what differs from run to run.
fn masked(mut value: Value, fields: &[&str]) -> Value {
    for field in fields {
        let field = &mut value[*field];
        assert!(!field.is_null());
        *field = json!("…");
    }
    value
}

async fn world() -> World {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 4, user: 1 }").await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn list_shows_leases_with_filters() {
    let world = world().await;
    world.acquire(&["pdf", "--holder-ref", "first job"]);
    world.acquire(&["pdf", "--tenant", "b", "--holder-ref", "second job"]);
    let output = world.lease(&["list", "--tenant", "acme"]);
    output.assert(0, "");
    let header = [
        "TOKEN",
        "RESOURCE",
        "STATE",
        "TENANT",
        "PROJECT",
        "USER",
        "HOLDER",
        "POD",
        "AGE",
        "EXPIRES IN",
    ];
    let first = [
        "TOKEN",
        "pdf",
        "HELD",
        "acme",
        "thesis",
        "ada",
        "first job",
        "-",
        "DURATION",
        "DURATION",
    ];
    assert_eq!(output.table(), [header, first]);
    assert_eq!(world.lease(&["list"]).table().len(), 3);

    let all: [&[&str]; 6] = [
        &["--project", "thesis"],
        &["--user", "ada"],
        &["--resource", "pdf"],
        &["--type", "command"],
        &["--state", "held"],
        &[],
    ];
    for filter in all {
        let listed = world.lease(&[&["list", "--json"], filter].concat()).json();
        assert_eq!(listed.as_array().unwrap().len(), 2, "{filter:?}");
    }
    let none: [&[&str]; 6] = [
        &["--project", "x"],
        &["--user", "x"],
        &["--resource", "x"],
        &["--type", "x"],
        &["--state", "revoking"],
        &["--pod", "x"],
    ];
    for filter in none {
        let output = world.lease(&[&["list"], filter].concat());
        output.assert(
            0,
            "no leases match; `lease acquire` or `lease run` takes one\n",
        );
        assert_eq!(output.stdout, "");
        let output = world.lease(&[&["list", "--json"], filter].concat());
        output.assert(0, "");
        assert_eq!(output.stdout, "[]\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_lease_is_listed_first_and_as_expired() {
    let world = world().await;
    world.acquire(&["pdf", "--user", "old"]);
    world.age(std::time::Duration::from_secs(500)).await;
    world.acquire(&["pdf", "--user", "new"]);
    let table = world.lease(&["list"]).table();
    assert_eq!((&*table[1][5], &*table[1][9]), ("old", "expired"));
    assert_eq!((&*table[2][5], &*table[2][9]), ("new", "DURATION"));
}

#[tokio::test(flavor = "multi_thread")]
async fn show_tells_everything_but_the_values_of_the_payload() {
    let world = world().await;
    let token = world.acquire(&["pdf", "--holder-ref", "first job"]);
    let payload = doc! { "$set": { "payload": { "jobId": "hidden" } } };
    world.holders().update_many(doc! {}, payload).await.unwrap();
    let output = world.lease(&["show", &token]);
    output.assert(0, "");
    let mut table = output.table();
    let last_used = table
        .iter_mut()
        .find(|row| row[0] == "last used")
        .unwrap()
        .pop()
        .unwrap();
    assert!(last_used.ends_with("Z (0 uses)"), "{last_used}");
    let expires = table
        .iter_mut()
        .find(|row| row[0] == "expires")
        .unwrap()
        .pop()
        .unwrap();
    assert!(expires.ends_with(", unless it is used"), "{expires}");
    assert_eq!(
        table,
        [
            &["FIELD", "VALUE"][..],
            &["token", "TOKEN"],
            &["lease", "pdf"],
            &["resource", "pdf"],
            &["type", "command"],
            &["state", "HELD"],
            &["tenant", "acme"],
            &["project", "thesis"],
            &["user", "ada"],
            &["holder", "first job"],
            &["pod", "-"],
            &["books", "pdf|user|acme/ada, pdf|global|"],
            &["acquired", "TIME"],
            &["last used"],
            &["expires"],
            &["payload", "jobId"],
            &[
                "on a revocation",
                "no handler: its command ends at its next check, or its time runs out; the slot comes back after that"
            ],
            &["revocation", "-"],
        ]
    );

    let json = world.lease(&["show", &token, "--json"]);
    json.assert(0, "");
    let differs = [
        "createdAt",
        "acquiredAt",
        "lastSeenAt",
        "ageSeconds",
        "expiresAt",
        "expiresInSeconds",
    ];
    let shown = masked(json.json(), &differs);
    let whole = json!({
        "token": token, "lease": "pdf", "resource": "pdf", "type": "command", "state": "HELD",
        "tenant": "acme", "project": "thesis", "user": "ada", "holderRef": "first job",
        "pod": null, "podAlive": null, "podBound": false, "slotReturn": "AFTER_CLEANUP",
        "levels": ["pdf|user|acme/ada", "pdf|global|"], "ttlSeconds": 120,
        "createdAt": "…", "acquiredAt": "…", "lastSeenAt": "…", "ageSeconds": "…", "expiresAt": "…",
        "expiresInSeconds": "…",
        "beats": 0, "payloadKeys": ["jobId"], "revocationReason": null, "revokedAt": null, "cleanup": null,
    });
    assert_eq!(shown, whole);
    let listed = world.lease(&["list", "--json"]).json();
    assert_eq!(
        masked(listed[0].clone(), &differs),
        whole,
        "list has the same shape"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_show_drift_and_what_is_not_booked() {
    let world = world().await;
    let none = world.lease(&["counters"]);
    none.assert(0, "no counters match: nothing is held there\n");
    world.acquire(&["pdf"]);
    world.acquire(&["pdf", "--tenant", "b"]);
    let clean = world.lease(&["counters", "--tenant", "acme"]);
    clean.assert(0, "");
    let header = ["RESOURCE", "LEVEL", "SCOPE", "IN USE", "CAP", "HOLDERS"];
    let header = [&header[..], &["CLEANUP", "DRIFT", "UNBOOKED"]].concat();
    assert_eq!(
        clean.table(),
        [&header[..], &["pdf", "user", "acme/ada", "1", "1", "1"]]
    );

    // A slot that nobody holds, and a lease from before the global cap.
    let key = doc! { "_id": "pdf|user|b/ada" };
    let orphan = doc! { "$push": { "tokens": "f".repeat(32) }, "$inc": { "count": 1 } };
    world.counters().update_one(key, orphan).await.unwrap();
    let unbooked = doc! { "$pull": { "levels": "pdf|global|" } };
    world
        .holders()
        .update_one(doc! { "tenantId": "b" }, unbooked)
        .await
        .unwrap();
    let output = world.lease(&["counters"]);
    output.assert(
        0,
        "counters with drift: look again, and if it stays, `lease reconcile` frees what nobody holds\n",
    );
    assert_eq!(
        output.table(),
        [
            &header[..],
            &["pdf", "global", "everybody", "2", "4", "1", "+1", "1"],
            &["pdf", "user", "acme/ada", "1", "1", "1"],
            &["pdf", "user", "b/ada", "2", "1", "1", "+1"],
        ]
    );
    let json = world.lease(&["counters", "--json", "--tenant", "b"]);
    json.assert(0, "");
    assert_eq!(
        masked(json.json()[0].clone(), &["updatedAt"]),
        json!({
            "key": "pdf|user|b/ada", "resource": "pdf", "level": "user", "tenant": "b", "project": null, "user": "ada",
            "lease": "pdf", "cap": 1, "count": 2, "booked": 1, "awaitingCleanup": 0, "failed": 0, "countField": 2, "drift": 1,
            "unbooked": 0, "updatedAt": "…",
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn count_that_was_written_by_hand_is_shown_beside_the_tokens_and_the_next_booking_corrects_it()
 {
    let world = world().await;
    world.acquire(&["pdf"]);
    let by_hand = doc! { "$set": { "count": 3_i64 } };
    let global = doc! { "level": "global" };
    world.counters().update_one(global, by_hand).await.unwrap();
    let off = "count fields that differ from their tokens decide nothing: `lease reconcile` names them, and the next lease that is \
               taken or given back there corrects them\n";
    let output = world.lease(&["counters"]);
    output.assert(0, off);
    let drift = "count field says 3, tokens 1";
    assert_eq!(
        output.table()[1..],
        [
            &["pdf", "global", "everybody", "1", "4", "1", drift][..],
            &["pdf", "user", "acme/ada", "1", "1", "1"],
        ]
    );
    let json = world.lease(&["counters", "--json"]).json();
    let facts = ["count", "countField", "drift"].map(|field| &json[0][field]);
    assert_eq!(facts, [&json!(1), &json!(3), &json!(0)]);
    let named = world.lease(&["reconcile"]);
    assert!(
        named.stdout.contains("count is 3 but 1 tokens are listed"),
        "{named:?}"
    );

    world.acquire(&["pdf", "--user", "bob"]);
    world.lease(&["counters"]).assert(0, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn reconcile_frees_what_nobody_holds_and_a_dry_run_only_says_so() {
    let world = world().await;
    world.acquire(&["pdf"]);
    world.acquire(&["pdf", "--user", "bob"]);
    world
        .holders()
        .delete_one(doc! { "userId": "bob" })
        .await
        .unwrap();
    let dry = world.lease(&["reconcile", "--dry-run"]);
    dry.assert(0, "");
    let lines: Vec<_> = dry.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{dry:?}");
    assert!(lines[0].starts_with("would free ") && lines[0].ends_with(" of pdf|global|"));
    assert!(lines[1].starts_with("would free ") && lines[1].ends_with(" of pdf|user|acme/bob"));
    assert_eq!(
        lines[2..],
        [
            "would remove the empty counter pdf|user|acme/bob",
            "3 counters looked at: would free 2 slots, would remove 1 empty counters, 0 with drift",
        ]
    );
    assert_eq!(world.stored().await, (1, 4), "nothing has changed");

    let done = world.lease(&["reconcile", "--json"]);
    done.assert(0, "");
    let report = done.json();
    assert_eq!(report["orphans"].as_array().unwrap().len(), 2);
    assert_eq!(
        (
            &report["dryRun"],
            &report["counters"],
            &report["removed"],
            &report["drift"]
        ),
        (
            &json!(false),
            &json!(3),
            &json!(["pdf|user|acme/bob"]),
            &json!([])
        )
    );
    assert_eq!(world.stored().await, (1, 2));
    let again = world.lease(&["reconcile"]);
    again.assert(0, "");
    assert_eq!(
        again.stdout,
        "2 counters looked at: freed 0 slots, removed 0 empty counters, 0 with drift\n"
    );
}
