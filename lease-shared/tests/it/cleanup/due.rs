//! What is due is found, type by type, and nothing keeps it from being found.

use mongodb::bson::{Bson, DateTime, Document, Timestamp, doc};

use super::{claim, exclusive, types, world};
use crate::support::{World, lease_type};

/// Copies of a revocation, due the longest first by their numbers.
async fn crowd(world: &World, count: usize, kind: &str) {
    let token = exclusive(world).await;
    let template = world.holder(&token).await.unwrap();
    let copies = (0..count).map(|n| {
        let mut holder = template.clone();
        let mut revocation = holder.get_document("revocation").unwrap().clone();
        let due = mongodb::bson::DateTime::from_millis(n as i64);
        revocation.insert("nextTryAt", due);
        holder.extend(doc! { "_id": format!("{n:032x}"), "type": kind, "revocation": revocation });
        holder
    });
    world.holders().insert_many(copies).await.unwrap();
    world.leases.cleanups().abandon(&token).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_with_many_hides_none_of_the_others() {
    let world = world().await;
    crowd(&world, 100, "soft").await;
    let one = exclusive(&world).await;
    let due = world.leases.cleanups().due(&types(), 5).await.unwrap();
    let of = |kind: &str| -> Vec<String> {
        let kind = lease_type(kind);
        let of_type = due.iter().filter(|due| due.lease_type == kind);
        of_type.map(|due| due.token.to_string()).collect()
    };
    assert_eq!(of("hard"), [one.to_string()]);
    let longest: Vec<String> = (0..5).map(|n| format!("{n:032x}")).collect();
    assert_eq!(of("soft"), longest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_is_not_known_here_is_left_to_others() {
    let world = world().await;
    crowd(&world, 10, "unknown").await;
    let _due = exclusive(&world).await;
    let due = world.leases.cleanups().due(&types(), 5).await.unwrap();
    assert_eq!(due.len(), 1);
    let none = world.leases.cleanups().due(&[], 5).await.unwrap();
    assert_eq!(none, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_claimed_or_waits_is_not_in_the_way() {
    let world = world().await;
    crowd(&world, 12, "hard").await;
    for n in 0..10 {
        let token = format!("{n:032x}").parse().unwrap();
        let cleanup = claim(&world.leases, &token).await.unwrap();
        if n % 2 == 0 {
            cleanup.failed("no", false).await.unwrap();
            let later = doc! { "$set": { "revocation.nextTryAt": { "$add": ["$$NOW", 600_000] } } };
            world.set(&token, later).await;
        }
    }
    let due = world.leases.cleanups().due(&types(), 2).await.unwrap();
    let due: Vec<_> = due.iter().map(|due| due.token.to_string()).collect();
    assert_eq!(due, [format!("{:032x}", 10), format!("{:032x}", 11)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_nobody_can_claim_are_not_in_the_way() {
    let world = world().await;
    crowd(&world, 1, "hard").await;
    let template = world.all_holders().await.remove(0);
    let nameless: Vec<Document> = (0..20)
        .map(|n| {
            let mut holder = template.clone();
            holder.insert("_id", format!("no-token-{n}"));
            holder
        })
        .collect();
    world.holders().insert_many(nameless).await.unwrap();
    let whole = exclusive(&world).await;
    let older = doc! { "_id": format!("{:032x}", 0) };
    world.holders().delete_one(older).await.unwrap();
    let due = world.leases.cleanups().due(&types(), 5).await.unwrap();
    let due: Vec<_> = due.into_iter().map(|due| due.token).collect();
    assert_eq!(due, [whole]);
}

#[tokio::test(flavor = "multi_thread")]
async fn next_try_that_would_never_come_is_now() {
    let world = world().await;
    let never: [Bson; 4] = [
        Bson::MaxKey,
        Bson::Timestamp(Timestamp {
            time: u32::MAX,
            increment: 0,
        }),
        DateTime::MAX.into(),
        // By the clock of a primary that was ahead by some weeks.
        doc! { "$add": ["$$NOW", 20 * 24 * 3_600_000_i64] }.into(),
    ];
    for next in never {
        let token = exclusive(&world).await;
        let change = doc! { "$set": {
            "revocation.nextTryAt": &next,
            "revocation.claim": { "id": "a", "by": "b", "until": &next },
        } };
        world.set(&token, change).await;
        let cleanups = world.leases.cleanups();
        let due = cleanups.due(&types(), 5).await.unwrap();
        assert_eq!(due.len(), 1, "{next}");
        assert!(cleanups.retry(&token).await.unwrap(), "{next}");
        let cleanup = claim(&world.leases, &token).await;
        let cleanup = cleanup.unwrap_or_else(|| panic!("{next}"));
        let due = cleanups.due(&types(), 5).await.unwrap();
        assert_eq!(due, [], "it is claimed");
        assert!(cleanup.finish().await.unwrap());
    }
}
