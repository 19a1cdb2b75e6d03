//! Whoever looks for something among many leases examines what it finds, and not what is there.

use std::time::Duration;

use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::support::{
    COUNTERS, HOLDERS, World, lease_type, nothing_left, pod_id, request, request_by,
};

const MANY: usize = 3000;
/// Stands for a day from now, by the server's clock.
const TOMORROW: &str = "tomorrow";

/// One command on the holders: its name, and the larger of how many keys and how many documents it examined.
type Examined = (String, i32);

struct Crowd {
    world: World,
    template: Document,
}

impl Crowd {
    /// Begins with one lease, which lives by its token.
    async fn new() -> Self {
        let world = World::new().await;
        world
            .define("pdf", "levels: { global: 9 }\nttlSeconds: 600")
            .await;
        let lease = world.leases.acquire(request_by("soft", None, "ada")).await;
        lease.unwrap().into_token();
        let template = world.all_holders().await.remove(0);
        Self { world, template }
    }

    /// Adds copies of the lease, each changed by `change`.
    async fn add(&self, count: usize, change: impl Fn(usize, &mut Document)) {
        let copies = (0..count).map(|n| {
            let mut holder = self.template.clone();
            holder.insert("_id", format!("{:032x}", fastrand::u128(..)));
            change(n, &mut holder);
            holder
        });
        let holders = self.world.holders();
        holders.insert_many(copies).await.unwrap();
        let later = doc! { "revocation.nextTryAt": TOMORROW };
        let tomorrow = doc! { "revocation.nextTryAt": { "$add": ["$$NOW", 24 * 3_600_000] } };
        let tomorrow = vec![doc! { "$set": tomorrow }];
        holders.update_many(later, tomorrow).await.unwrap();
    }

    async fn examined<T>(&self, work: impl Future<Output = T>) -> (T, Vec<Examined>) {
        self.examined_in(HOLDERS, work).await
    }

    async fn examined_in<T>(
        &self,
        collection: &str,
        work: impl Future<Output = T>,
    ) -> (T, Vec<Examined>) {
        let (result, found) = self.world.profiled(collection, work).await;
        let number = |op: &Document, field| op.get(field).and_then(Bson::as_i32).unwrap_or(0);
        let examined = found.iter().map(|op| {
            let command = op.get_document("command").unwrap();
            let name = command.keys().next().unwrap().clone();
            (
                name,
                number(op, "keysExamined").max(number(op, "docsExamined")),
            )
        });
        (result, examined.collect())
    }
}

#[track_caller]
fn assert_few(examined: &[Examined], commands: &[&str], at_most: i32) {
    let names: Vec<&str> = examined.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, commands);
    assert!(
        examined.iter().all(|(_, count)| *count <= at_most),
        "{examined:?}"
    );
}

fn revoking(holder: &mut Document, due: bool) {
    let long_ago = DateTime::from_millis(0);
    // What is not due waits until a day that no test lives to see.
    let next = if due {
        long_ago.into()
    } else {
        Bson::from(TOMORROW)
    };
    let revocation = doc! { "reason": "idle", "at": long_ago, "attempts": 0, "nextTryAt": next };
    holder.extend(doc! { "state": "REVOKING", "revocation": revocation });
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_listed_by_what_they_are_and_their_leases_by_how_many_are_asked_for() {
    let crowd = Crowd::new().await;
    crowd
        .add(MANY, |n, holder| {
            if n % 4 > 0 {
                holder.insert("pod", format!("pod-{}", n % 4));
            }
        })
        .await;
    let leases = &crowd.world.leases;
    let (pods, examined) = crowd.examined(leases.pods_with_leases()).await;
    assert_eq!(pods.unwrap().len(), 3);
    assert_few(&examined, &["distinct"], 8);
    let pod = pod_id("pod-2");
    let (held, examined) = crowd.examined(leases.held_by(&pod, 5)).await;
    assert_eq!(held.unwrap().len(), 5);
    assert_few(&examined, &["find"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_ups_that_are_not_due_are_not_in_the_way_of_one_that_is() {
    let crowd = Crowd::new().await;
    crowd.add(MANY, |_, _| {}).await;
    crowd.add(MANY, |_, holder| revoking(holder, false)).await;
    crowd.add(2, |_, holder| revoking(holder, true)).await;
    let cleanups = crowd.world.leases.cleanups();
    let types = [lease_type("soft")];
    let (due, examined) = crowd.examined(cleanups.due(&types, 9)).await;
    assert_eq!(due.unwrap().len(), 2);
    assert_few(&examined, &["find"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_to_a_pod_is_found_among_all_that_is_being_revoked() {
    let crowd = Crowd::new().await;
    let in_pod = |holder: &mut Document, unreached: bool| {
        revoking(holder, false);
        holder.insert("pod", "pod-a");
        let revocation = holder.get_document_mut("revocation").unwrap();
        revocation.extend(doc! { "waitsForPod": true, "unreached": unreached });
    };
    crowd.add(MANY, |_, holder| in_pod(holder, false)).await;
    let cleanups = crowd.world.leases.cleanups();
    let (types, pod) = ([lease_type("soft")], pod_id("pod-a"));
    let (none, examined) = crowd.examined(cleanups.left_to(&pod, &types, 9)).await;
    assert_eq!(none.unwrap(), []);
    assert_few(&examined, &["find"], 0);
    crowd.add(2, |_, holder| in_pod(holder, true)).await;
    let (left, examined) = crowd.examined(cleanups.left_to(&pod, &types, 9)).await;
    assert_eq!(left.unwrap().len(), 2);
    assert_few(&examined, &["find"], 4);
    let (pods, examined) = crowd.examined(cleanups.waited_for()).await;
    assert_eq!(pods.unwrap(), [pod]);
    assert_few(&examined, &["distinct"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_times_to_live_than_a_query_has_branches_are_looked_for_in_several() {
    const TTLS: usize = 150;
    let crowd = Crowd::new().await;
    crowd
        .add(MANY, |n, holder| {
            holder.insert("ttlSeconds", (700 + n % TTLS) as i64);
        })
        .await;
    let over = [0, 60, 120, TTLS - 1];
    let long_ago = DateTime::from_millis(0);
    crowd
        .add(over.len(), |n, holder| {
            holder.extend(doc! { "ttlSeconds": (700 + over[n]) as i64, "lastSeenAt": long_ago });
        })
        .await;
    let (swept, examined) = crowd.examined(crowd.world.leases.sweep()).await;
    assert_eq!((swept.idle, swept.failed), (over.len(), vec![]));
    // Those that are held are looked for in two queries, and again until there are none; then those that were revoked
    // just now in one.
    assert_few(
        &examined,
        &[
            "distinct",
            "distinct",
            "find",
            "find",
            "findAndModify",
            "findAndModify",
            "findAndModify",
            "findAndModify",
            "distinct",
            "find",
            "find",
            "distinct",
            "find",
        ],
        300,
    );
    assert_eq!(crowd.world.leases.sweep().await, nothing_left());
}

#[tokio::test(flavor = "multi_thread")]
async fn acquirer_that_finds_its_counter_full_of_expired_leases_looks_at_those_alone() {
    let crowd = Crowd::new().await;
    crowd.world.define("small", "levels: { user: 3 }").await;
    crowd.add(MANY, |_, _| {}).await;
    let counters = (0..MANY).map(|n| {
        let key = format!("small|user|acme/user-{n}");
        doc! { "_id": key, "resource": "small", "level": "user", "count": 0, "tokens": [] }
    });
    crowd.world.counters().insert_many(counters).await.unwrap();
    let leases = &crowd.world.leases;
    let expire = async || {
        while crowd.world.in_use().await.get("small|user|acme/bob") != Some(&3) {
            let idle = leases.acquire(request("small", "bob")).await.unwrap();
            idle.into_token();
        }
        let all = doc! { "userId": "bob" };
        let long_ago = doc! { "$set": { "lastSeenAt": DateTime::from_millis(0) } };
        crowd
            .world
            .holders()
            .update_many(all, long_ago)
            .await
            .unwrap();
    };
    for collection in [HOLDERS, COUNTERS] {
        expire().await;
        let acquire = leases.acquire(request("small", "bob"));
        let (lease, examined) = crowd.examined_in(collection, acquire).await;
        lease.unwrap().into_token();
        assert!(examined.len() > 3, "{collection}: {examined:?}");
        // Of each of its three tokens, and what lies before it.
        let few = examined.iter().all(|(_, count)| *count <= 6);
        assert!(few, "{collection}: {examined:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_to_live_that_is_no_number_is_in_nobodys_way() {
    let world = World::new().await;
    world
        .define("pdf", "levels: { global: 9 }\nttlSeconds: 600")
        .await;
    for state in ["PENDING", "HELD", "REVOKING"] {
        let broken = (0..150).map(|n| {
            doc! { "_id": format!("{state}-{n}"), "state": state, "ttlSeconds": format!("soon-{n}") }
        });
        world.holders().insert_many(broken).await.unwrap();
    }
    assert_eq!(world.leases.sweep().await, nothing_left());
    let lease = world.leases.acquire(request("pdf", "ada")).await.unwrap();
    world
        .age(lease.token().unwrap(), Duration::from_secs(601))
        .await;
    assert_eq!(world.leases.sweep().await.idle, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_no_tokens_are_in_nobodys_way() {
    let crowd = Crowd::new().await;
    let long_ago = DateTime::from_millis(0);
    for state in ["PENDING", "HELD"] {
        let odd = |n: usize, holder: &mut Document| {
            holder.insert("_id", format!("{state} {n}"));
            holder.extend(doc! { "state": state, "lastSeenAt": long_ago, "pod": "pod-1" });
        };
        crowd.add(300, odd).await;
        crowd
            .add(1, |_, holder| {
                holder.extend(doc! { "state": state, "lastSeenAt": long_ago });
            })
            .await;
    }
    crowd
        .add(1, |_, holder| {
            holder.insert("pod", "pod-1");
        })
        .await;
    let leases = &crowd.world.leases;
    assert_eq!(leases.held_by(&pod_id("pod-1"), 9).await.unwrap().len(), 1);
    let swept = leases.sweep().await;
    assert_eq!((swept.stale, swept.idle), (1, 1), "{swept:?}");
}
