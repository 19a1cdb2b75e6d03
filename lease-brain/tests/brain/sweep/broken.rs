//! Documents that are no leases: whatever stands in them, the others are reaped, and the round goes on.

use std::collections::HashSet;
use std::time::Duration;

use lease_shared::Filter;
use mongodb::bson::{Bson, DateTime, Decimal128, Document, doc, oid::ObjectId};
use serde_json::json;
use test_mongo::eventually;

use crate::asking::{metric, post, sweep};
use crate::fleet::{Fleet, PodOptions, SOON, token};

/// All that can be wrong with one field.
fn faults(field: &str) -> Vec<Option<Bson>> {
    let mut faults = vec![None, Some(Bson::Null), Some(Bson::String("x".to_owned()))];
    faults.push(Some(Bson::Document(doc! { "a": 1 })));
    match field {
        "lastSeenAt" | "createdAt" | "acquiredAt" => {
            faults.extend([DateTime::MIN, DateTime::MAX].map(|at| Some(at.into())));
        }
        "ttlSeconds" | "beats" => {
            let numbers = [f64::NEG_INFINITY, f64::INFINITY, f64::NAN, -1e18, -1e300];
            faults.extend(numbers.map(|number| Some(number.into())));
            faults.extend([i64::MIN, i64::MAX, -1].map(|number| Some(number.into())));
            faults.push(Some(Bson::Decimal128(Decimal128::from_bytes([255; 16]))));
        }
        _ => {}
    }
    faults
}

/// Every field of a holder that something relies on, wrong in every way, in every state.
fn broken(whole: &Document) -> Vec<Document> {
    let mut broken = Vec::new();
    for state in ["PENDING", "HELD", "REVOKING"] {
        let mut holder = whole.clone();
        holder.insert("state", state);
        if state == "REVOKING" {
            let long_ago = DateTime::from_millis(0);
            let revocation = doc! { "reason": "idle", "at": long_ago, "nextTryAt": long_ago };
            holder.insert("revocation", revocation);
        }
        let fields: Vec<String> = holder.keys().filter(|key| *key != "_id").cloned().collect();
        for field in fields {
            for fault in faults(&field) {
                let mut one = holder.clone();
                match fault {
                    Some(value) => drop(one.insert(&field, value)),
                    None => drop(one.remove(&field)),
                }
                one.insert("_id", fresh());
                broken.push(one);
            }
        }
        let mut other_id = holder.clone();
        other_id.insert("_id", ObjectId::new());
        broken.push(other_id);
        broken.push(doc! { "_id": fresh(), "state": state });
    }
    broken
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_documents_stop_no_round_and_the_others_are_reaped() {
    let fleet = Fleet::new().await;
    let whole = token(
        fleet
            .lease("template", None, false, "http://127.0.0.1:1")
            .await,
    );
    fleet.age_only(&whole, Duration::from_secs(3600)).await;
    let mut template = fleet.holder(&whole).await.unwrap();
    template.insert("payload", doc! {});
    let all = broken(&template);
    fleet.holders().insert_many(&all).await.unwrap();
    fleet
        .holders()
        .delete_one(doc! { "_id": whole.as_str() })
        .await
        .unwrap();
    let mut good = Vec::new();
    for user in ["ada", "bob", "eve"] {
        let lease = token(fleet.lease(user, None, false, "http://127.0.0.1:1").await);
        let its = doc! { "_id": lease.as_str() };
        let empty = doc! { "$set": { "payload": {} } };
        fleet.holders().update_one(its, empty).await.unwrap();
        fleet.age_only(&lease, Duration::from_secs(3600)).await;
        good.push(lease);
    }
    let pod = fleet
        .pod_with("a", PodOptions::with(&["--reap-interval=1h"]))
        .await;
    let first = sweep(&pod).await;
    // Those that were held and cannot be read, by name.
    assert!(first.failed.len() > 50, "{first:#?}");
    let named = |line: &String| line.starts_with("could not revoke holder: holder \"");
    assert!(first.failed.iter().all(named), "{first:#?}");
    assert!(
        first.failed.iter().all(|line| line.len() < 400),
        "{first:#?}"
    );
    eventually("the good ones are gone", SOON, async || {
        for lease in &good {
            if fleet.holder(lease).await.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await
    .unwrap();
    let second = sweep(&pod).await;
    assert_eq!(second.failed, [""; 0], "told once");
    for panics in ["vance_lease_sweep_panics", "vance_lease_reap_panics"] {
        assert_eq!(metric(&pod, panics).await, Some(0.0), "{panics}");
    }
    // A second look at those in revocation is an hour away.
    let log = pod.log();
    let parked = log
        .lines()
        .filter(|line| line.contains("cannot be read; its clean-up waits"));
    let parked: Vec<_> = parked
        .map(|line| line.split("\"lease.token\":").nth(1))
        .collect();
    let distinct: HashSet<_> = parked.iter().collect();
    assert!(parked.len() > 20 && distinct.len() == parked.len(), "{log}");
    assert!(!log.contains("panicked"), "{log}");
    let listed = fleet
        .leases
        .views()
        .holders(&Filter::default())
        .await
        .unwrap();
    assert!(!listed.unreadable.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_that_was_used_at_the_end_of_time_can_be_revoked() {
    let fleet = Fleet::new().await;
    let pod = fleet.pod("a").await;
    let lease = token(fleet.lease("ada", None, false, "http://127.0.0.1:1").await);
    let its = doc! { "_id": lease.as_str() };
    let corrupt = doc! { "$set": { "lastSeenAt": DateTime::MAX } };
    fleet.holders().update_one(its, corrupt).await.unwrap();
    let call = json!({ "token": lease, "reason": null, "ifPod": null });
    let reply = post(&pod, "/internal/lease/admin/revoke", &call).await;
    assert!(reply.status.is_success(), "{reply:?}");
    let holder = fleet.holder(&lease).await.unwrap();
    let revocation = holder.get_document("revocation").unwrap();
    let at = |field| revocation.get_datetime(field).unwrap().timestamp_millis();
    // As if it had been used just now.
    assert_eq!(at("nextTryAt") - at("at"), 600_000);
}

fn fresh() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
