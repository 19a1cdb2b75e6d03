//! What is done.

use std::time::Duration;

use lease_shared::CheckError;
use serde_json::{Value, json};

use super::super::World;
use crate::fleet::{Answer, Plug, token};
use mongodb::bson::doc;

#[tokio::test(flavor = "multi_thread")]
async fn ones_own_lease_is_revoked_without_a_reason_and_anothers_with_one() {
    let world = World::with_secret(&[]).await;
    let own = world.lease("acme", "boss", doc! {}).await;
    let others = world.lease("acme", "ada", doc! {}).await;
    let admin = world.admin("acme", "boss");
    let (status, said) = admin.revoke(own.token().unwrap(), None).await;
    assert_eq!((status, &said["outcome"]), (200, &"revoked".into()));
    assert!(matches!(own.check().await, Err(CheckError::Lost(_))));

    let token = others.token().unwrap();
    for none in [None, Some(""), Some("  ")] {
        let (status, said) = admin.revoke(token, none).await;
        assert_eq!((status, &said["code"]), (422, &"REASON_NEEDED".into()));
        others.check().await.unwrap();
    }
    for bad in ["a\nb", &"x".repeat(501)] {
        let (status, said) = admin.revoke(token, Some(bad)).await;
        assert_eq!((status, &said["code"]), (400, &"BAD_REQUEST".into()));
        others.check().await.unwrap();
    }
    let (status, said) = admin.revoke(token, Some(" it blocks the release ")).await;
    assert_eq!(status, 200, "{said}");
    assert!(matches!(others.check().await, Err(CheckError::Lost(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_what_was_seen_is_left_alone() {
    let world = World::with_secret(&[]).await;
    let admin = world.admin("acme", "boss");
    // Released meanwhile, and its slot is another's by now.
    let seen = world.lease("acme", "boss", doc! {}).await;
    let gone = seen.token().unwrap().clone();
    seen.release().await.unwrap();
    let next = world.lease("acme", "boss", doc! {}).await;
    let (status, said) = admin.revoke(&gone, None).await;
    assert_eq!((status, &said["code"]), (404, &"UNKNOWN_TOKEN".into()));
    let message = said["message"].as_str().unwrap();
    assert!(message.starts_with("holder changed: "), "{message}");
    next.check().await.unwrap();

    // Seen in another state than that in which it can be revoked.
    let path = format!("holders/{}/revoke", next.token().unwrap());
    for state in ["PENDING", "REVOKING"] {
        let (status, said) = admin.post(&path, json!({ "state": state })).await;
        assert_eq!((status, &said["code"]), (409, &"HOLDER_CHANGED".into()));
        next.check().await.unwrap();
    }
    for body in [
        json!({}),
        json!({ "state": "held" }),
        json!({ "state": "HELD", "force": true }),
    ] {
        let (status, said) = admin.post(&path, body).await;
        assert!((400..500).contains(&status), "{said}");
        next.check().await.unwrap();
    }

    // Being revoked by somebody else already.
    let plug = Plug::new(Answer::Status(503)).await;
    let busy = world
        .lease("acme", "ada", doc! { "url": plug.url("/off") })
        .await;
    let busy = token(busy);
    world.fleet.revoke(&busy).await;
    let (status, said) = admin.revoke(&busy, Some("now")).await;
    assert_eq!((status, &said["code"]), (409, &"HOLDER_CHANGED".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_each_has_its_own_result() {
    let world = World::with_secret(&[]).await;
    let admin = world.admin("acme", "boss");
    let ada = world.held("acme", "ada").await;
    let bob = world.lease("acme", "bob", doc! {}).await;
    let gone = bob.token().unwrap().clone();
    bob.release().await.unwrap();
    let theirs = world.held("umbrella", "eve").await;
    let holders: Vec<Value> = [&ada, &gone, &theirs, &ada]
        .into_iter()
        .map(|token| json!({ "token": token, "state": "HELD" }))
        .collect();
    for body in [
        json!({ "holders": holders }),
        json!({ "holders": holders, "reason": " " }),
        json!({ "holders": [], "reason": "all" }),
        json!({ "holders": vec![&holders[0]; 101], "reason": "all" }),
    ] {
        let (status, said) = admin.post("holders/revoke", body).await;
        assert!((400..500).contains(&status), "{said}");
    }
    assert_eq!(world.fleet.state(&ada).await, "HELD");
    let (status, said) = admin
        .post(
            "holders/revoke",
            json!({ "holders": holders, "reason": "the bench burns" }),
        )
        .await;
    assert_eq!(status, 200, "{said}");
    let results = said["results"].as_array().unwrap();
    let outcomes: Vec<_> = results.iter().map(|result| &result["outcome"]).collect();
    assert_eq!(outcomes[1..3], ["noSuchLease", "noSuchLease"]);
    // Named twice, it is revoked once.
    let twice = [outcomes[0], outcomes[3]];
    let revoked = twice.iter().filter(|outcome| **outcome == "revoked");
    assert_eq!(revoked.count(), 1, "{twice:?}");
    assert_eq!(world.fleet.state(&theirs).await, "HELD");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_clean_up_is_seen_and_tried_again() {
    let world = World::with_secret(&[]).await;
    let plug = Plug::new(Answer::Status(503)).await;
    let lease = world
        .lease("acme", "ada", doc! { "url": plug.url("/off") })
        .await;
    let lease = token(lease);
    let admin = world.admin("acme", "boss");
    let retry = format!("revocations/{lease}/retry");
    let (status, said) = admin.post(&retry, Value::Null).await;
    assert_eq!(
        (status, &said["code"]),
        (409, &"NOT_RETRIED".into()),
        "it is held"
    );
    let (status, _) = admin.revoke(&lease, Some("now")).await;
    assert_eq!(status, 200);
    // Nobody reaches its holder, which has this long to end.
    world.fleet.age_cleanups(Duration::from_secs(600)).await;
    world.fleet.failed(&lease, 2).await;
    let listed = admin.get("revocations").await;
    let cleanup = &listed["entries"][0]["cleanup"];
    assert!(cleanup["attempts"].as_i64().unwrap() >= 2);
    let error = cleanup["lastError"].as_str().unwrap();
    assert!(error.contains("503"), "{error}");
    assert_eq!(
        (&cleanup["by"], &cleanup["note"]),
        (&"boss".into(), &"now".into())
    );

    // As if it had failed for long, and were tried in an hour only.
    let failed = doc! { "$set": {
        "revocation.failed": true, "revocation.attempts": 10_i64,
        "revocation.nextTryAt": mongodb::bson::DateTime::from_millis(i64::from(u32::MAX) * 1000),
    } };
    let its = doc! { "_id": lease.as_str() };
    test_mongo::eventually("nobody works on it", crate::fleet::SOON, async || {
        let mut free = its.clone();
        free.insert("revocation.claim", doc! { "$exists": false });
        let changed = world
            .fleet
            .holders()
            .update_one(free, failed.clone())
            .await?;
        Ok(changed.matched_count == 1)
    })
    .await
    .unwrap();
    assert_eq!(admin.get("overview").await["totals"]["failed"], 1);
    plug.answer(Answer::Status(204));
    let (status, said) = admin.post(&retry, Value::Null).await;
    assert_eq!(status, 204, "{said}");
    world.fleet.gone(&lease).await;
    let (status, _) = admin.post(&retry, Value::Null).await;
    assert_eq!(status, 404);
}
