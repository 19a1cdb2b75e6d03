//! A brain of a program that links it, and drops it in the middle of its work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lease_brain::brain::Brain;
use lease_brain::cluster::PodSettings;
use lease_shared::{HandlerError, LeaseHandler, Revocation, SlotReturn};
use mongodb::bson::{DateTime, Document, doc};
use test_mongo::eventually;
use tokio::net::TcpListener;

use crate::fleet::{Fleet, SOON, token};

/// Never ends by itself.
#[derive(Debug, Default)]
struct Hangs {
    begun: AtomicUsize,
    running: AtomicUsize,
}

struct Running<'a>(&'a Hangs);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl LeaseHandler for Hangs {
    fn slot_return(&self) -> SlotReturn {
        SlotReturn::AfterCleanup
    }

    fn on_revoked<'a>(&'a self, _: &'a Revocation) -> BoxFuture<'a, Result<(), HandlerError>> {
        Box::pin(async move {
            self.begun.fetch_add(1, Ordering::SeqCst);
            self.running.fetch_add(1, Ordering::SeqCst);
            let _running = Running(self);
            std::future::pending().await
        })
    }
}

/// A brain in this process, whose handlers of the type `webhook` hang.
async fn brain(fleet: &Fleet) -> (Brain, Arc<Hangs>) {
    let client = lease_shared::connect(fleet.mongo.uri()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pod = PodSettings {
        cluster_id: "default".to_owned(),
        node_name: "linked".to_owned(),
        endpoint: format!("http://{}", listener.local_addr().unwrap()),
        labels: BTreeMap::new(),
        heartbeat: Duration::from_millis(200),
        stale: Duration::from_secs(60),
    };
    let handler = Arc::new(Hangs::default());
    let database = client.database(fleet.mongo.name());
    let brain = Brain::builder(database, pod, listener)
        .handler("webhook", Arc::<Hangs>::clone(&handler))
        .unwrap()
        .reap_interval(Duration::from_millis(100))
        .start()
        .await
        .unwrap();
    (brain, handler)
}

impl Fleet {
    /// Waits until the server's clock has gone on by that much: for what would happen meanwhile, if it did.
    async fn time_goes_on_by(&self, time: Duration) {
        let then = self.now().await + i64::try_from(time.as_millis()).unwrap();
        eventually("time goes on", SOON, async || Ok(self.now().await > then))
            .await
            .unwrap();
    }

    /// How many leases are held, and how many clean-ups are claimed.
    async fn standing(&self) -> (u64, u64) {
        let count = async |filter: Document| self.holders().count_documents(filter).await.unwrap();
        let held = count(doc! { "state": "HELD" }).await;
        let claimed = doc! { "revocation.claim": { "$exists": true } };
        (held, count(claimed).await)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_end_with_a_brain_that_is_dropped_and_nothing_is_written_of_them() {
    let fleet = Fleet::new().await;
    let (brain, handler) = brain(&fleet).await;
    let lease = token(fleet.lease("ada", None, false, "http://unused").await);
    fleet.age(Duration::from_secs(601)).await;
    eventually("its handler runs", SOON, async || {
        Ok(handler.running.load(Ordering::SeqCst) == 1)
    })
    .await
    .unwrap();
    let claimed = fleet.holder(&lease).await;
    drop(brain);
    eventually("its handler ends", Duration::from_secs(10), async || {
        Ok(handler.running.load(Ordering::SeqCst) == 0)
    })
    .await
    .unwrap();
    fleet.time_goes_on_by(Duration::from_secs(1)).await;
    assert_eq!(fleet.holder(&lease).await, claimed, "left to others");
    assert_eq!(handler.begun.load(Ordering::SeqCst), 1);
    fleet.only_booked(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn round_ends_in_its_middle_with_a_brain_that_is_dropped() {
    const LEASES: usize = 4000;
    let fleet = Fleet::new().await;
    let template = token(fleet.lease("ada", None, false, "http://unused").await);
    let mut template = fleet.holder(&template).await.unwrap();
    template.insert("lastSeenAt", DateTime::from_millis(0));
    let copies = (0..LEASES).map(|_| {
        let mut copy = template.clone();
        copy.insert("_id", uuid::Uuid::new_v4().simple().to_string());
        copy
    });
    let copies: Vec<Document> = copies.collect();
    let (brain, handler) = brain(&fleet).await;
    fleet.holders().insert_many(copies).await.unwrap();
    let revoking = doc! { "state": "REVOKING" };
    eventually("a round is under way", SOON, async || {
        Ok(fleet.holders().count_documents(revoking.clone()).await? > 0)
    })
    .await
    .unwrap();
    drop(brain);
    // What was sent before is carried out.
    fleet.time_goes_on_by(Duration::from_secs(1)).await;
    let (standing, begun) = (fleet.standing().await, handler.begun.load(Ordering::SeqCst));
    assert!(standing.0 > 0, "the round was not over");
    fleet.time_goes_on_by(Duration::from_secs(1)).await;
    assert_eq!(fleet.standing().await, standing);
    assert_eq!(handler.begun.load(Ordering::SeqCst), begun);
    assert_eq!(handler.running.load(Ordering::SeqCst), 0);
}
