//! One database per test, a service on it, and looks at what is really stored.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt;
use lease_shared::definition::DocumentAddress;
use lease_shared::{
    AcquireError, KnownTypes, Lease, LeaseRef, LeaseRequest, LeaseService, LeaseToken, LeaseType,
    PodId, Revocation, RevocationListener, SlotReturn, SweepReport, Tenancy, apply_time_limits,
};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection, Database};
use test_mongo::TestMongo;

pub(crate) const HOLDERS: &str = "resource_lease_holders";
pub(crate) const COUNTERS: &str = "resource_lease_counters";

pub(crate) struct World {
    pub(crate) mongo: TestMongo,
    pub(crate) leases: LeaseService,
    pub(crate) listener: Arc<Recorder>,
}

/// Knows the types `soft` (slot back at once) and `hard` (after the clean-up), and keeps what it is told.
#[derive(Debug)]
pub(crate) struct Recorder {
    types: KnownTypes,
    pub(crate) revocations: Mutex<Vec<Revocation>>,
}

impl RevocationListener for Recorder {
    fn slot_return(&self, lease_type: &LeaseType) -> Option<SlotReturn> {
        self.types.slot_return(lease_type)
    }

    fn revoked(&self, revocation: Revocation) {
        self.revocations.lock().unwrap().push(revocation);
    }
}

pub(crate) fn lease_type(name: &str) -> LeaseType {
    LeaseType::new(name).unwrap()
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A world whose client is built with other options.
    pub(crate) async fn with(change: impl FnOnce(&mut ClientOptions)) -> Self {
        let mongo = TestMongo::new().await.unwrap();
        Self::on(mongo, change).await
    }

    pub(crate) async fn on(mongo: TestMongo, change: impl FnOnce(&mut ClientOptions)) -> Self {
        let client = client(&mongo, change).await;
        let (leases, listener) = service(&client.database(mongo.name())).await;
        Self {
            mongo,
            leases,
            listener,
        }
    }

    /// Returns when everything written so far is committed, so that all reads agree on it.
    pub(crate) async fn commit(&self) {
        let marks = self.mongo.database().collection::<Document>("marks");
        marks.insert_one(doc! {}).await.unwrap();
    }

    /// Another process, as far as the store can tell.
    pub(crate) async fn another_service(&self) -> LeaseService {
        let client = client(&self.mongo, |_| {}).await;
        service(&client.database(self.mongo.name())).await.0
    }

    /// Writes the definition of `name` into the system layer.
    pub(crate) async fn define(&self, name: &str, body: &str) {
        let text = format!("name: {name}\n{body}\n");
        let address = DocumentAddress::lease("_vance", "_tenant", &name.parse().unwrap());
        self.leases
            .definitions()
            .put(&address.unwrap(), &text)
            .await
            .unwrap();
    }

    pub(crate) fn holders(&self) -> Collection<Document> {
        self.mongo.database().collection(HOLDERS)
    }

    pub(crate) fn counters(&self) -> Collection<Document> {
        self.mongo.database().collection(COUNTERS)
    }

    pub(crate) async fn all_holders(&self) -> Vec<Document> {
        self.holders()
            .find(doc! {})
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap()
    }

    pub(crate) async fn all_counters(&self) -> Vec<Document> {
        self.counters()
            .find(doc! {})
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap()
    }

    /// How many slots each counter has in use, by its tokens.
    pub(crate) async fn in_use(&self) -> BTreeMap<String, usize> {
        let key = |counter: &Document| counter.get_str("_id").unwrap().to_owned();
        let counters = self.all_counters().await;
        counters
            .iter()
            .map(|counter| (key(counter), counter.get_array("tokens").unwrap().len()))
            .collect()
    }

    pub(crate) async fn holder(&self, token: &LeaseToken) -> Option<Document> {
        let filter = doc! { "_id": token.as_str() };
        self.holders().find_one(filter).await.unwrap()
    }

    pub(crate) async fn state(&self, token: &LeaseToken) -> Option<String> {
        let holder = self.holder(token).await?;
        Some(holder.get_str("state").unwrap().to_owned())
    }

    /// Changes one holder by hand.
    pub(crate) async fn set(&self, token: &LeaseToken, update: Document) {
        let filter = doc! { "_id": token.as_str() };
        let changed = self.holders().update_one(filter, vec![update]).await;
        assert_eq!(changed.unwrap().matched_count, 1, "{token} is there");
    }

    /// Makes a revocation look as if its claim, and the pause before its next try, had begun that much earlier.
    pub(crate) async fn age_cleanup(&self, token: &LeaseToken, by: Duration) {
        let millis = by.as_millis() as i64;
        let earlier = |field: &str| doc! { "$subtract": [format!("$revocation.{field}"), millis] };
        let claim =
            doc! { "$mergeObjects": ["$revocation.claim", { "until": earlier("claim.until") }] };
        let none = doc! { "$eq": [{ "$type": "$revocation.claim" }, "missing"] };
        let older = doc! { "$set": {
            "revocation.nextTryAt": earlier("nextTryAt"),
            "revocation.claim": { "$cond": [none, "$$REMOVE", claim] },
        } };
        self.set(token, older).await;
    }

    /// Does `work`, and gives what the server says of each command on `collection` meanwhile.
    pub(crate) async fn profiled<T>(
        &self,
        collection: &str,
        work: impl Future<Output = T>,
    ) -> (T, Vec<Document>) {
        let database = self.mongo.database();
        let ops = database.collection::<Document>("system.profile");
        ops.drop().await.unwrap();
        database.run_command(doc! { "profile": 2 }).await.unwrap();
        let result = work.await;
        database.run_command(doc! { "profile": 0 }).await.unwrap();
        let ours = doc! { "ns": format!("{}.{collection}", database.name()) };
        let found = ops.find(ours).await.unwrap().try_collect().await.unwrap();
        (result, found)
    }

    /// Makes a holder look as if it had been used that much longer ago.
    pub(crate) async fn age(&self, token: &LeaseToken, by: Duration) {
        let millis = by.as_millis() as i64;
        let older = doc! { "$set": { "lastSeenAt": { "$subtract": ["$lastSeenAt", millis] } } };
        let aged = self
            .holders()
            .update_one(doc! { "_id": token.as_str() }, vec![older])
            .await
            .unwrap();
        assert_eq!(aged.matched_count, 1, "{token} is there to be aged");
    }

    /// Every token in a counter has a holder that lists the counter, and every holder stands in all it lists, except
    /// one whose revocation gives its slots back at once: it stands in none.
    pub(crate) async fn assert_counters_equal_holders(&self) {
        let mut booked = Vec::new();
        let mut held = Vec::new();
        for counter in self.all_counters().await {
            let tokens = counter.get_array("tokens").unwrap();
            assert_eq!(
                counter.get_i32("count").unwrap() as usize,
                tokens.len(),
                "{counter}"
            );
            let key = counter.get_str("_id").unwrap();
            booked.extend(
                tokens
                    .iter()
                    .map(|token| (key.to_owned(), token.as_str().unwrap().to_owned())),
            );
        }
        for holder in self.all_holders().await {
            let is = |field, value| holder.get_str(field).unwrap() == value;
            if is("state", "REVOKING") && is("slotReturn", "AT_ONCE") {
                continue;
            }
            let token = holder.get_str("_id").unwrap();
            let keys = holder
                .get_array("levels")
                .unwrap()
                .iter()
                .filter_map(Bson::as_str);
            held.extend(keys.map(|key| (key.to_owned(), token.to_owned())));
        }
        booked.sort();
        held.sort();
        assert_eq!(
            booked, held,
            "tokens in counters (left) and levels of holders (right)"
        );
    }
}

pub(crate) async fn client(mongo: &TestMongo, change: impl FnOnce(&mut ClientOptions)) -> Client {
    mongo
        .client_with(|options| {
            apply_time_limits(options);
            change(options);
        })
        .await
        .unwrap()
}

pub(crate) async fn service(database: &Database) -> (LeaseService, Arc<Recorder>) {
    let types = KnownTypes::new()
        .with(lease_type("soft"), SlotReturn::AtOnce)
        .with(lease_type("hard"), SlotReturn::AfterCleanup);
    let listener = Arc::new(Recorder {
        types,
        revocations: Mutex::default(),
    });
    let leases = LeaseService::builder(database.clone())
        .listener(listener.clone())
        .follow_changes(false)
        .start()
        .await
        .unwrap();
    (leases, listener)
}

/// A request of `soft` type that does not wait, by user `who` of `acme/thesis`.
pub(crate) fn request(name: &str, who: &str) -> LeaseRequest {
    request_of(
        name,
        &Tenancy::new("acme", "thesis", who).unwrap(),
        Duration::ZERO,
    )
}

/// The same, waiting for at most `wait`.
pub(crate) fn waiting(name: &str, who: &str, wait: Duration) -> LeaseRequest {
    request_of(name, &Tenancy::new("acme", "thesis", who).unwrap(), wait)
}

pub(crate) fn request_of(name: &str, tenancy: &Tenancy, wait: Duration) -> LeaseRequest {
    LeaseRequest::builder()
        .lease_type(lease_type("soft"))
        .lease(LeaseRef::named(name).unwrap())
        .tenancy(tenancy.clone())
        .holder_ref(format!("{}'s job", tenancy.user()))
        .wait(wait)
        .build()
}

/// A request that does not wait, of this type, by user `who` of `acme/thesis` in this pod, if it is in one.
pub(crate) fn request_by(kind: &str, pod: Option<&str>, who: &str) -> LeaseRequest {
    LeaseRequest::builder()
        .lease_type(lease_type(kind))
        .lease(LeaseRef::named("pdf").unwrap())
        .tenancy(Tenancy::new("acme", "thesis", who).unwrap())
        .holder_ref(format!("{who}'s job"))
        .maybe_pod(pod.map(pod_id))
        .wait(Duration::ZERO)
        .build()
}

pub(crate) fn pod_id(name: &str) -> PodId {
    PodId::new(name).unwrap()
}

/// A revocation as it was written before its clean-up was begun.
pub(crate) fn in_revocation(reason: &str) -> Document {
    doc! { "$set": {
        "state": "REVOKING",
        "revocation": { "reason": reason, "at": "$$NOW", "attempts": 0, "nextTryAt": "$$NOW" },
    } }
}

pub(crate) fn token(lease: &Lease) -> LeaseToken {
    lease.token().expect("not a NOOP").clone()
}

/// What a sweep says that found nothing to take.
pub(crate) fn nothing_left() -> SweepReport {
    SweepReport {
        complete: true,
        ..SweepReport::default()
    }
}

/// The diagnosis of a busy answer.
#[track_caller]
pub(crate) fn busy(result: Result<Lease, AcquireError>) -> lease_shared::Busy {
    match result {
        Err(AcquireError::Busy(busy)) => *busy,
        Err(other) => panic!("expected busy, got {other:?}"),
        Ok(lease) => panic!("expected busy, got {:?}", lease.token()),
    }
}

/// No test waits longer for a task to come to its gate.
pub(crate) async fn reached(gate: &lease_shared::Gate, what: impl std::fmt::Debug) {
    let reached = tokio::time::timeout(Duration::from_secs(30), gate.reached()).await;
    assert!(reached.is_ok(), "nobody came to {what:?}");
}
