//! Real `brain` processes on one database, leases of their own, and the resource that their handlers call.

mod actor;
mod plug;
mod pod;
mod stand_in;

use std::time::Duration;

use futures_util::TryStreamExt;
use lease_brain::cluster::PodLiveness;
use lease_brain::handlers::webhook::{self, SLOT_RETURN};
use lease_shared::definition::DocumentAddress;
use lease_shared::{
    AcquireError, Decision, KnownTypes, Lease, LeaseRef, LeaseRequest, LeaseService, LeaseToken,
    LeaseType, PodId, Revoked, SlotReturn, Tenancy,
};
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use test_mongo::{TestMongo, eventually};

pub(crate) use actor::Actor;
pub(crate) use plug::{Answer, Plug};
pub(crate) use pod::{Pod, PodOptions, SECRET};
pub(crate) use stand_in::StandIn;

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
        let types = KnownTypes::new()
            .with(webhook::lease_type().unwrap(), SLOT_RETURN)
            .with(LeaseType::new("probe").unwrap(), SlotReturn::AtOnce);
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
        let pod = pod.map(|pod| &pod.id);
        let request = request("webhook", user, pod, pod_bound, doc! { "url": url });
        self.leases.acquire(request).await.unwrap()
    }

    /// Acquires as [`Fleet::lease`] does, without a pod, and gives what comes of it.
    pub(crate) async fn try_lease(&self, user: &str) -> Result<Lease, AcquireError> {
        let request = request("webhook", user, None, false, doc! {});
        self.leases.acquire(request).await
    }

    /// Waits until a pod has been silent for longer than it promised.
    pub(crate) async fn silent(&self, pod: &PodId) {
        eventually("a pod is taken for dead", SOON, async || {
            let liveness = PodLiveness::read(self.mongo.database(), None).await?;
            Ok(!liveness.is_alive(pod))
        })
        .await
        .unwrap();
    }

    /// A lease of a type that pods have handlers for; `probe` is the actors'.
    pub(crate) async fn lease_of(
        &self,
        lease_type: &str,
        user: &str,
        pod: Option<&PodId>,
        pod_bound: bool,
        payload: Document,
    ) -> LeaseToken {
        let request = request(lease_type, user, pod, pod_bound, payload);
        token(self.leases.acquire(request).await.unwrap())
    }

    /// Revokes a lease, as a process does that has no handlers, or that dies over it.
    pub(crate) async fn revoke(&self, token: &LeaseToken) {
        let revoked = self.leases.revoke(token, &Decision::default()).await;
        assert!(matches!(revoked, Ok(Revoked::Now(_))), "{revoked:?}");
    }

    /// What stands in the document of a lease that is being revoked.
    pub(crate) async fn revocation(&self, token: &LeaseToken) -> Document {
        let holder = self.holder(token).await.expect("the lease is there");
        holder
            .get_document("revocation")
            .expect("it is being revoked")
            .clone()
    }

    /// Waits until somebody works on a clean-up, and says who.
    pub(crate) async fn claimed(&self, token: &LeaseToken) -> String {
        let by = async || {
            let revocation = self
                .holder(token)
                .await?
                .get_document("revocation")
                .ok()?
                .clone();
            let claim = revocation.get_document("claim").ok()?;
            Some(claim.get_str("by").ok()?.to_owned())
        };
        eventually("a clean-up is claimed", SOON, async || {
            Ok(by().await.is_some())
        })
        .await
        .unwrap();
        by().await.expect("the claim holds")
    }

    /// Waits until a clean-up was tried that often in vain, and gives what stands in its document then.
    pub(crate) async fn failed(&self, token: &LeaseToken, times: i64) -> Document {
        let tried = async || {
            let holder = self.holder(token).await?;
            let revocation = holder.get_document("revocation").ok()?;
            let tried = revocation.get_i64("attempts").ok()?;
            (tried >= times && !revocation.contains_key("claim")).then_some(())
        };
        eventually("a clean-up was tried in vain", SOON, async || {
            Ok(tried().await.is_some())
        })
        .await
        .unwrap();
        self.revocation(token).await
    }

    /// Makes all clean-ups look as if they had been claimed, or tried, that much longer ago.
    pub(crate) async fn age_cleanups(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap();
        let earlier = |field: &str| doc! { "$subtract": [field, millis] };
        let claimed = doc! { "revocation.claim": { "$exists": true } };
        let until = doc! { "revocation.claim.until": earlier("$revocation.claim.until") };
        let next = doc! { "revocation.nextTryAt": earlier("$revocation.nextTryAt") };
        let revoking = doc! { "state": "REVOKING" };
        for (filter, set) in [(revoking, next), (claimed, until)] {
            let earlier = vec![doc! { "$set": set }];
            self.holders().update_many(filter, earlier).await.unwrap();
        }
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

    /// The same, while others hold theirs.
    pub(crate) async fn gone_alone(&self, token: &LeaseToken) {
        eventually("the lease is gone", SOON, async || {
            Ok(self.holder(token).await.is_none())
        })
        .await
        .unwrap();
    }

    /// The server's clock, in milliseconds.
    pub(crate) async fn now(&self) -> i64 {
        let hello = self.mongo.database().run_command(doc! { "hello": 1 });
        let hello = hello.await.unwrap();
        hello.get_datetime("localTime").unwrap().timestamp_millis()
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

    /// Waits until that many tokens are in all counters: they go after their documents.
    pub(crate) async fn only_booked(&self, tokens: usize) {
        eventually("the other slots are back", SOON, async || {
            Ok(self.booked().await == tokens)
        })
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

fn request(
    lease_type: &str,
    user: &str,
    pod: Option<&PodId>,
    pod_bound: bool,
    payload: Document,
) -> LeaseRequest {
    LeaseRequest::builder()
        .lease_type(LeaseType::new(lease_type).unwrap())
        .lease(LeaseRef::named(BENCH).unwrap())
        .tenancy(Tenancy::new("acme", "thesis", user).unwrap())
        .holder_ref("test")
        .maybe_pod(pod.cloned())
        .pod_bound(pod_bound)
        .payload(payload)
        .build()
}

/// The lease's token; the test lets go of the lease, which lives on.
pub(crate) fn token(lease: Lease) -> LeaseToken {
    lease.into_token().unwrap()
}
