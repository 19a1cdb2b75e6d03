//! What a round costs the store, by the store's own account.

use futures_util::TryStreamExt;
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use test_mongo::eventually;

use crate::asking::metric;
use crate::fleet::{Fleet, SOON, token};

/// What is held, and nothing to a round.
const HELD: usize = 3000;
/// What a round is about.
const EXPIRED: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn round_looks_at_what_is_expired_and_not_at_what_is_there() {
    let fleet = Fleet::new().await;
    let pod = fleet.pod("a").await;
    let template = token(
        fleet
            .lease("ada", Some(&pod), false, "http://127.0.0.1:1")
            .await,
    );
    let template = fleet.holder(&template).await.unwrap();
    let copies = |count: usize, state: &str| {
        let mut holder = template.clone();
        holder.insert("state", state);
        holder.insert("levels", mongodb::bson::Array::new());
        holder.insert("payload", doc! {});
        let copy = move |_| {
            let mut copy = holder.clone();
            copy.insert("_id", uuid::Uuid::new_v4().simple().to_string());
            copy
        };
        (0..count).map(copy).collect::<Vec<_>>()
    };
    fleet
        .holders()
        .insert_many(copies(HELD, "HELD"))
        .await
        .unwrap();
    // The first round reconciles, which looks at everything.
    eventually("the first round is over", SOON, || async {
        Ok(metric(&pod, "vance_lease_drift").await.is_some())
    })
    .await
    .unwrap();
    let mut expired = copies(EXPIRED, "HELD");
    let long_ago = mongodb::bson::DateTime::from_millis(0);
    for holder in &mut expired {
        holder.insert("lastSeenAt", long_ago);
    }
    let database = fleet.mongo.database();
    let profile = async |level: i32| {
        database
            .run_command(doc! { "profile": level })
            .await
            .unwrap();
    };
    profile(2).await;
    fleet.holders().insert_many(expired).await.unwrap();
    eventually("all are gone", SOON, || async {
        let there = fleet.holders().estimated_document_count().await?;
        Ok(there == HELD as u64 + 1)
    })
    .await
    .unwrap();
    // Whatever comes after the end of the last one is a round that finds nothing.
    profile(0).await;
    let said: Collection<Document> = database.collection("system.profile");
    let ours = doc! { "ns": format!("{}.resource_lease_holders", fleet.mongo.name()) };
    let ours: Vec<Document> = said.find(ours).await.unwrap().try_collect().await.unwrap();
    let mut looks = std::collections::BTreeMap::<String, (usize, i64, i64)>::new();
    for look in &ours {
        let command = look.get_document("command").unwrap();
        let name = command.keys().next().unwrap();
        if !["find", "distinct", "findAndModify", "findandmodify"].contains(&name.as_str()) {
            continue;
        }
        let number = |field| {
            look.get(field)
                .and_then(|it| it.as_i64().or(it.as_i32().map(i64::from)))
                .unwrap_or(0)
        };
        let key = command.get_str("key").unwrap_or_default();
        let (count, keys, documents) = looks.entry(format!("{name} {key}")).or_default();
        *count += 1;
        *keys = number("keysExamined").max(*keys);
        *documents = number("docsExamined").max(*documents);
        assert!(
            number("keysExamined") + number("docsExamined") < 10 * EXPIRED as i64,
            "{look}"
        );
    }
    for expected in ["find ", "distinct pod", "distinct ttlSeconds"] {
        assert!(looks.contains_key(expected), "{looks:?}");
    }
    eprintln!("{looks:?}");
}
