//! What the tests of the sweep change and look at in the store.

use std::time::Duration;

use lease_shared::LeaseToken;
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use crate::fleet::{Fleet, Pod};

impl Fleet {
    /// Makes this lease look as if it had been used that much longer ago.
    pub(crate) async fn age_only(&self, token: &LeaseToken, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap();
        let older = doc! { "$set": { "lastSeenAt": { "$subtract": ["$lastSeenAt", millis] } } };
        let its = doc! { "_id": token.as_str() };
        self.holders().update_one(its, vec![older]).await.unwrap();
    }

    /// Where a lease stands.
    pub(crate) async fn state(&self, token: &LeaseToken) -> String {
        let holder = self.holder(token).await.unwrap();
        holder.get_str("state").unwrap().to_owned()
    }

    pub(crate) async fn row(&self, pod: &Pod) -> Document {
        let its = doc! { "_id": pod.id.as_str() };
        self.pods().find_one(its).await.unwrap().unwrap()
    }

    /// Makes a pod look as if it had not been heard for that long.
    pub(crate) async fn silence(&self, pod: &Pod, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap();
        let earlier = doc! { "$subtract": ["$$NOW", millis] };
        let older = vec![doc! { "$set": { "lastHeartbeatAt": earlier } }];
        let its = doc! { "_id": pod.id.as_str() };
        self.pods().update_one(its, older).await.unwrap();
    }

    /// Makes killed pods look as if they had been dead for longer than they promised to be heard in.
    pub(crate) async fn stale(&self, pods: &[&Pod]) {
        for pod in pods {
            self.silence(pod, Duration::from_secs(60)).await;
        }
    }

    pub(crate) fn counters(&self) -> Collection<Document> {
        self.mongo.database().collection("resource_lease_counters")
    }
}
