//! Very many leases that expired while no pod was there.

use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};
use test_mongo::eventually;

use crate::asking::{get, metric};
use crate::fleet::{Answer, Fleet, Plug, PodOptions, token};

const EXPIRED: usize = 20_000;
/// Of these, so many have something to be called at their end.
const CALLS: usize = 60;
/// How many hold one resource.
const EACH: usize = 500;

/// Writes leases as an acquire leaves them, a thousand at a time, and the counters that list them.
async fn fill(fleet: &Fleet, template: &Document, plug: &Plug) {
    let mut holders = Vec::new();
    let mut counters = Vec::new();
    for counter in 0..EXPIRED / EACH {
        let key = format!("mass-{counter}|global|");
        let mut tokens = Vec::new();
        for _ in 0..EACH {
            let id = uuid::Uuid::new_v4().simple().to_string();
            let mut holder = template.clone();
            holder.insert("_id", &id);
            holder.insert("resource", format!("mass-{counter}"));
            holder.insert("levels", vec![key.clone()]);
            // The ends of all others are nothing to be waited for, and those of some free their slots at once.
            let calls = holders.len() < CALLS;
            holder.insert(
                "payload",
                match calls {
                    true => doc! { "url": plug.url("/mass") },
                    false => doc! {},
                },
            );
            if tokens.len() % 2 == 0 {
                holder.insert("slotReturn", "AT_ONCE");
            }
            holders.push(holder);
            tokens.push(id);
        }
        counters.push(doc! {
            "_id": key, "resource": format!("mass-{counter}"), "level": "global", "lease": "bench",
            "cap": 1000_i64, "count": EACH as i64, "tokens": tokens, "updatedAt": mongodb::bson::DateTime::from_millis(0),
        });
    }
    for some in holders.chunks(1000) {
        fleet.holders().insert_many(some).await.unwrap();
    }
    fleet.counters().insert_many(counters).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_expired_leases_are_taken_while_others_still_acquire() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let template = token(
        fleet
            .lease("template", None, false, "http://127.0.0.1:1")
            .await,
    );
    fleet.age(Duration::from_secs(3600)).await;
    let holder = fleet.holder(&template).await.unwrap();
    fleet.holders().delete_many(doc! {}).await.unwrap();
    fleet.counters().delete_many(doc! {}).await.unwrap();
    fill(&fleet, &holder, &plug).await;
    let began = Instant::now();
    let pod = fleet
        .pod_with("a", PodOptions::with(&["--stale=30s"]))
        .await;
    let left = async || fleet.holders().count_documents(doc! {}).await;
    let mut slowest = Duration::ZERO;
    let mut acquired = 0;
    let mut swept = None;
    loop {
        let asked = Instant::now();
        let lease = fleet
            .lease("meanwhile", None, false, "http://127.0.0.1:1")
            .await;
        slowest = slowest.max(asked.elapsed());
        acquired += 1;
        lease.release().await.unwrap();
        assert!(plug.calls("/mass").most_at_once <= 16);
        if plug.calls("/mass").begun > 0 {
            plug.answer(Answer::Status(200));
        }
        let held = doc! { "state": "HELD" };
        if swept.is_none() && fleet.holders().count_documents(held).await.unwrap() < 2 {
            swept = Some(began.elapsed());
            eprintln!("all revoked after {swept:?}");
        }
        assert_eq!(get(&pod, "/healthz").await.text, "ok\n");
        let left = left().await.unwrap();
        if left < 2 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(400), "{left} left");
    }
    eventually("all slots are back", Duration::from_secs(20), async || {
        Ok(left().await? == 0 && fleet.booked().await == 0)
    })
    .await
    .unwrap();
    eprintln!(
        "all gone after {:?}; {acquired} acquired meanwhile, the slowest in {slowest:?}",
        began.elapsed()
    );
    assert!(slowest < Duration::from_millis(4500), "{slowest:?}");
    assert_eq!(plug.calls("/mass").begun, CALLS);
    let reaped = metric(&pod, r#"vance_lease_reap{reason="idle"}"#).await;
    assert_eq!(reaped, Some(EXPIRED as f64));
}
