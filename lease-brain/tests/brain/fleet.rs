//! Real `brain` processes on one database, leases of their own, and the resource that their handlers call.

mod plug;
mod pod;

use std::time::Duration;

use futures_util::TryStreamExt;
use lease_brain::handlers::webhook::{self, SLOT_RETURN};
use lease_shared::definition::DocumentAddress;
use lease_shared::{KnownTypes, Lease, LeaseRef, LeaseRequest, LeaseService, LeaseToken, Tenancy};
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use test_mongo::{TestMongo, eventually};

pub(crate) use plug::{Answer, Plug};
pub(crate) use pod::{Pod, PodOptions, SECRET};

/// For what takes a few rounds of the shortest intervals, on a loaded machine.
pub(crate) const SOON: Duration = Duration::from_secs(40);
/// The lease that all tests take: exclusive for each user.
pub(crate) const BENCH: &str = "bench";

/// A database, and a service that acquires in the name of any pod: to the store, a pod's lease is what names it.
pub(crate) struct Fleet {
    pub(crate) mongo: TestMongo,
    pub(crate) leases: LeaseService,
}

impl Fleet {
    pub(crate) async fn new() -> Self {
        Self::on(TestMongo::new().await.unwrap()).await
    }

    pub(crate) async fn on(mongo: TestMongo) -> Self {
        let client = lease_shared::connect(mongo.uri()).await.unwrap();
        let types = KnownTypes::new().with(webhook::lease_type().unwrap(), SLOT_RETURN);
        let leases = LeaseService::builder(client.database(mongo.name()))
            .listener(std::sync::Arc::new(types))
            .follow_changes(false)
            .start()
            .await
            .unwrap();
        let fleet = Self { mongo, leases };
        fleet
            .define(BENCH, "levels: { user: 1 }\nttlSeconds: 600")
            .await;
        fleet
    }

    /// Writes the definition of `name` into the system layer.
    pub(crate) async fn define(&self, name: &str, body: &str) {
        let address = DocumentAddress::lease("_vance", "_tenant", &name.parse().unwrap());
        let text = format!("name: {name}\n{body}\n");
        let definitions = self.leases.definitions();
        definitions.put(&address.unwrap(), &text).await.unwrap();
    }

    /// A running pod with the shortest intervals.
    pub(crate) async fn pod(&self, name: &str) -> Pod {
        self.pod_with(name, PodOptions::default()).await
    }

    pub(crate) async fn pod_with(&self, name: &str, options: PodOptions) -> Pod {
        Pod::start(&self.mongo, name, options).await
    }

    /// A `webhook` lease of `user`, held by a pod or by nobody's.
    pub(crate) async fn lease(
        &self,
        user: &str,
        pod: Option<&Pod>,
        pod_bound: bool,
        url: &str,
    ) -> Lease {
        let request = LeaseRequest::builder()
            .lease_type(webhook::lease_type().unwrap())
            .lease(LeaseRef::named(BENCH).unwrap())
            .tenancy(Tenancy::new("acme", "thesis", user).unwrap())
            .holder_ref("test")
            .maybe_pod(pod.map(|pod| pod.id.clone()))
            .pod_bound(pod_bound)
            .payload(doc! { "url": url })
            .build();
        self.leases.acquire(request).await.unwrap()
    }

    pub(crate) fn holders(&self) -> Collection<Document> {
        self.mongo.database().collection("resource_lease_holders")
    }

    pub(crate) fn pods(&self) -> Collection<Document> {
        self.mongo.database().collection("brain_pods")
    }

    pub(crate) async fn holder(&self, token: &LeaseToken) -> Option<Document> {
        let filter = doc! { "_id": token.as_str() };
        self.holders().find_one(filter).await.unwrap()
    }

    /// Waits until the lease's document is gone, and with it all that was booked.
    pub(crate) async fn gone(&self, token: &LeaseToken) {
        eventually(
            "the lease is gone and its slots are back",
            SOON,
            async || Ok(self.holder(token).await.is_none() && self.booked().await == 0),
        )
        .await
        .unwrap();
    }

    /// Makes every lease look as if it had been used that much longer ago.
    pub(crate) async fn age(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap();
        let older = doc! { "$set": { "lastSeenAt": { "$subtract": ["$lastSeenAt", millis] } } };
        self.holders()
            .update_many(doc! {}, vec![older])
            .await
            .unwrap();
    }

    /// How many tokens there are in all counters.
    pub(crate) async fn booked(&self) -> usize {
        let counters: Collection<Document> =
            self.mongo.database().collection("resource_lease_counters");
        let all: Vec<Document> = counters
            .find(doc! {})
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        all.iter()
            .map(|counter| counter.get_array("tokens").unwrap().len())
            .sum()
    }
}

/// The lease's token; the test lets go of the lease, which lives on.
pub(crate) fn token(lease: Lease) -> LeaseToken {
    lease.into_token().unwrap()
}
