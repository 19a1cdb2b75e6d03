//! Who plays when one process is paused between two steps: it, a bystander who cleans up, and a rival for its slot.

use std::sync::Arc;

use lease_shared::{AcquireError, Lease, LeaseService, Phase};
use mongodb::bson::{Document, doc};
use test_mongo::TestMongo;

pub(crate) use crate::support::reached;
use crate::support::{Recorder, World, client, request, service, token};

/// A point of the protocol: a step of the store, and the side of it.
pub(crate) type Point = (&'static str, Phase);

/// What others do while one is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meanwhile {
    /// Time passes, everything is swept and reconciled, and then the rival comes.
    SweptAndReconciled,
    /// Time passes, and the rival finds out by itself.
    FoundByTheRival,
    /// No time passes, but a reconcile comes by, and the rival.
    Reconciled,
}

pub(crate) const MEANWHILES: [Meanwhile; 3] = [
    Meanwhile::SweptAndReconciled,
    Meanwhile::FoundByTheRival,
    Meanwhile::Reconciled,
];

/// One slot at four levels, and three processes as far as the store can tell.
pub(crate) struct Cast {
    pub(crate) world: World,
    pub(crate) paused: LeaseService,
    rival: LeaseService,
    rival_listener: Arc<Recorder>,
}

pub(crate) const RIVAL: &str = "ada";

impl Cast {
    pub(crate) async fn new() -> Self {
        Self::on(TestMongo::new().await.unwrap()).await
    }

    pub(crate) async fn on(mongo: TestMongo) -> Self {
        let world = World::on(mongo, |_| {}).await;
        let body = "levels: { user: 1, project: 1, tenant: 1, global: 1 }\nttlSeconds: 60";
        world.define("pdf", body).await;
        let client = client(&world.mongo, |_| {}).await;
        let (rival, rival_listener) = service(&client.database(world.mongo.name())).await;
        Self {
            paused: world.another_service().await,
            rival,
            rival_listener,
            world,
        }
    }

    /// Lets the others act, and gives the rival's lease if it got one.
    pub(crate) async fn act(&self, meanwhile: Meanwhile) -> Option<Lease> {
        match meanwhile {
            Meanwhile::SweptAndReconciled => {
                self.age_all().await;
                self.clean_up().await;
            }
            Meanwhile::FoundByTheRival => self.age_all().await,
            Meanwhile::Reconciled => {
                let reconciler = self.world.leases.reconciler();
                reconciler.reconcile(false).await.unwrap();
            }
        }
        self.rival().await
    }

    /// The rival tries once.
    pub(crate) async fn rival(&self) -> Option<Lease> {
        granted(self.rival.acquire(request("pdf", RIVAL)).await)
    }

    /// What the handler behind the one revocation so far is told, whoever took the lease.
    pub(crate) fn payload_told(&self) -> Document {
        let told = [&self.world.listener, &self.rival_listener].map(|listener| {
            let revocations = listener.revocations.lock().unwrap();
            revocations
                .iter()
                .map(|one| one.payload.clone())
                .collect::<Vec<_>>()
        });
        let [payload] = &told.concat()[..] else {
            panic!("{told:?}");
        };
        payload.clone()
    }

    pub(crate) async fn age_all(&self) {
        let older = doc! { "$set": { "lastSeenAt": { "$subtract": ["$$NOW", 90_000] } } };
        let holders = self.world.holders();
        holders.update_many(doc! {}, vec![older]).await.unwrap();
    }

    pub(crate) async fn clean_up(&self) {
        let report = self.world.leases.sweep().await;
        assert!(report.failed.is_empty(), "{report:?}");
        let reconciler = self.world.leases.reconciler();
        reconciler.reconcile(false).await.unwrap();
    }

    /// A lease that is believed in stands in all its counters.
    pub(crate) async fn assert_stands(&self, lease: &Lease) {
        lease.check().await.unwrap();
        let listed = doc! { "tokens": token(lease).as_str() };
        let counters = self.world.counters().count_documents(listed).await;
        assert_eq!(counters.unwrap(), 4, "the counters that list it");
    }

    /// Exactly `count` of these are believed in, each stands in its counters, and no counter is over its cap.
    pub(crate) async fn assert_believers(&self, leases: &[&Option<Lease>], count: usize) {
        let mut believers = 0;
        for lease in leases.iter().copied().flatten() {
            if lease.check().await.is_ok() {
                believers += 1;
                self.assert_stands(lease).await;
            }
        }
        assert_eq!(believers, count, "believers");
        let in_use = self.world.in_use().await;
        assert!(in_use.values().all(|slots| *slots <= 1), "{in_use:?}");
    }

    /// In the end all give back what they have, and everything is free without waiting for anything.
    pub(crate) async fn assert_all_free(&self, leases: Vec<Option<Lease>>) {
        for lease in leases.into_iter().flatten() {
            lease.release().await.unwrap();
        }
        for service in [&self.paused, &self.rival, &self.world.leases] {
            service.close().await;
        }
        self.world.assert_counters_equal_holders().await;
        let in_use = self.world.in_use().await;
        assert!(in_use.values().all(|slots| *slots == 0), "{in_use:?}");
    }

    pub(crate) async fn acquire_paused(&self, who: &str) -> tokio::task::JoinHandle<Option<Lease>> {
        let (paused, request) = (self.paused.clone(), request("pdf", who));
        tokio::spawn(async move { granted(paused.acquire(request).await) })
    }
}

/// The lease, or none if it was refused or lost on the way.
pub(crate) fn granted(result: Result<Lease, AcquireError>) -> Option<Lease> {
    match result {
        Ok(lease) => Some(lease),
        Err(AcquireError::Busy(_) | AcquireError::Unavailable(_)) => None,
        Err(other) => panic!("{other:?}"),
    }
}
