//! Leases whose documents cannot be read: they keep their slots, so they can be seen and ended.

use mongodb::bson::{Document, doc};
use serde_json::json;

use crate::{
    brain::{Brain, NO_POD},
    support::{SOON, World, until},
};

const WHY: &str = "missing field `podBound`";

async fn world() -> World {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 99 }\nttlSeconds: 600")
        .await;
    world
}

impl World {
    async fn held(&self, user: &str) -> String {
        self.webhook(user, "http://127.0.0.1:1/", NO_POD).await
    }

    /// Makes a lease one that is revoked.
    async fn due(&self, token: &str) {
        let set = doc! { "$set": {
            "state": "REVOKING",
            "revocation": {
                "reason": "revoke", "at": "$$NOW", "attempts": { "$literal": 0_i64 }, "nextTryAt": "$$NOW",
            },
        } };
        let its = doc! { "_id": token };
        self.holders().update_one(its, vec![set]).await.unwrap();
    }

    async fn break_up(&self, token: &str) {
        let unset: Document = doc! { "$unset": { "podBound": "" } };
        let its = doc! { "_id": token };
        self.holders().update_one(its, unset).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_that_cannot_be_read_is_listed_as_failed_retried_and_given_up() {
    let world = world().await;
    let token = world.held("ada").await;
    world.due(&token).await;
    world.break_up(&token).await;
    let waits = world.lease(&["cleanup", "list", "--json"]).json();
    assert_eq!(waits[0]["cleanup"]["phase"], "waiting");
    let brain = Brain::start(&world, "a");
    let list = ["cleanup", "list", "--failed"];
    let failed = || {
        let listed = world.lease(&[&list[..], &["--json"]].concat()).json();
        (listed[0]["token"] == token.as_str()).then(|| listed[0].clone())
    };
    let shown = until(SOON, "it is parked", failed);
    assert_eq!(
        (
            &shown["unreadable"],
            &shown["cleanup"]["phase"],
            &shown["type"]
        ),
        (&json!(WHY), &json!("failed"), &json!("webhook"))
    );
    drop(brain);
    let listed = world.lease(&list);
    assert_eq!(listed.code, Some(0));
    assert!(!listed.stderr.contains("not shown"), "{listed:?}");
    let table = listed.table();
    let cells = [
        "TOKEN",
        "pdf",
        "webhook",
        "acme/thesis",
        "1f0c9a6e",
        "revoke",
        "failed",
        "1",
    ];
    assert_eq!(table[1][..8], cells);
    let error = &table[1][9];
    let begins = format!("unreadable: {WHY}; last error: ");
    assert!(
        error.starts_with(&begins) && error.matches(WHY).count() == 2,
        "{error}"
    );

    let dry = world.lease(&["cleanup", "retry", "--all-failed", "--dry-run"]);
    assert_eq!(dry.table()[1][0], "TOKEN");
    for which in [&token, "--all-failed"] {
        let retried = world.lease(&["cleanup", "retry", which]);
        assert_eq!(retried.stdout, format!("{token} is tried again now\n"));
        assert_eq!(failed(), None);
        let parked = doc! { "revocation.failed": true };
        world.change(&token, parked).await;
    }
    // Another pod is reading it just now.
    let claim = doc! { "id": "x", "by": NO_POD, "until": { "$add": ["$$NOW", 60_000] } };
    let claim = doc! { "$set": { "revocation.claim": claim } };
    let its = doc! { "_id": &token };
    world.holders().update_one(its, vec![claim]).await.unwrap();
    let under_way = format!("the clean-up of {token} is under way, and cannot be tried again now");
    let retried = world.lease(&["cleanup", "retry", &token]);
    assert_eq!(retried.error(75), under_way);
    let given_up = world.lease(&["cleanup", "abandon", "--all-failed", "--yes"]);
    let line =
        format!("{token} given up, its slots are free: its resource pdf may still be in use\n");
    assert_eq!((given_up.code, given_up.stdout), (Some(0), line));
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_lease_keeps_no_other_from_being_given_up() {
    let world = world().await;
    let (broken, good) = (world.held("ada").await, world.held("bob").await);
    for token in [&broken, &good] {
        world.due(token).await;
    }
    world.break_up(&broken).await;
    let both = world.lease(&["cleanup", "abandon", &broken, &good, "--yes", "--json"]);
    assert_eq!(both.code, Some(0), "{both:?}");
    assert_eq!(both.json()["abandoned"].as_array().unwrap().len(), 2);
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_lease_is_shown_by_what_is_wrong_and_what_ends_it() {
    let world = world().await;
    let token = world.held("ada").await;
    world.break_up(&token).await;
    let show = ["show", token.as_str()];
    let held = format!(
        "lease {token} (HELD) cannot be read: {WHY}: `lease revoke {token} --force` gives its slot back, `lease cleanup \
         abandon {token}` then ends it"
    );
    assert_eq!(world.lease(&show).error(78), held);
    let refused = world.lease(&["cleanup", "abandon", &token, "--yes"]);
    let begins = format!("{token} is not being revoked, and cannot be read: {WHY}: `lease revoke ");
    assert!(refused.error(76).starts_with(&begins), "{refused:?}");
    world.due(&token).await;
    let revoking = format!(
        "lease {token} (REVOKING) cannot be read: {WHY}: `lease cleanup abandon {token}` gives it up"
    );
    assert_eq!(world.lease(&show).error(78), revoking);
    let shown = world.lease(&["show", &token, "--json"]);
    assert_eq!((shown.code, shown.error_line()), (Some(78), &*revoking));
    assert_eq!(shown.json()["unreadable"], WHY);
    assert_eq!(shown.json()["user"], "ada");
    // Not even its state can be read.
    world.change(&token, doc! { "state": "ODD" }).await;
    let by_hand = world.lease(&show);
    assert!(by_hand.error(78).ends_with(" by hand"), "{by_hand:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn force_frees_the_slot_of_a_broken_lease() {
    let world = world().await;
    for breaks in [
        doc! { "beats": "many" },
        doc! { "state": "REVOKING", "revocation": "odd" },
        doc! { "state": "REVOKING", "revocation": [1] },
    ] {
        let token = world.held("ada").await;
        world.change(&token, breaks).await;
        let asked = world.lease(&["revoke", &token, "--force"]);
        let question = format!("Free the slot of {token}, which cannot be read (");
        assert!(asked.error(64).contains(&question), "{asked:?}");
        let forced = world.lease(&["revoke", &token, "--force", "--yes"]);
        forced.assert(79, "");
        let line = format!(
            "{token} forced: the slot is free; no handler runs, for its document cannot be read: `lease cleanup abandon \
             {token}` ends it\n"
        );
        assert_eq!(forced.stdout, line);
        assert_eq!(world.stored().await, (1, 0));
        let given_up = world.lease(&["cleanup", "abandon", &token, "--yes"]);
        assert_eq!(given_up.code, Some(0), "{given_up:?}");
        assert_eq!(world.stored().await, (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_a_broken_lease_does_not_name_are_left_to_a_reconcile() {
    let world = world().await;
    let token = world.held("ada").await;
    world.change(&token, doc! { "levels": 7 }).await;
    let forced = world.lease(&["revoke", &token, "--force", "--yes"]);
    let begins = format!("{token} forced: `lease reconcile` frees its slot; ");
    assert!(forced.stdout.starts_with(&begins), "{forced:?}");
    let given_up = world.lease(&["cleanup", "abandon", &token, "--yes"]);
    let begins = format!("{token} given up, `lease reconcile` frees its slots: ");
    assert!(given_up.stdout.starts_with(&begins), "{given_up:?}");
    assert_eq!(world.stored().await, (0, 1));
    assert_eq!(world.lease(&["reconcile"]).code, Some(0));
    assert_eq!(world.stored().await, (0, 0));
}
