//! What pods hold, and what becomes of it when they die.

use mongodb::bson::{Document, doc};
use tokio::time::Instant;

use super::cleanups::unclaimed;
use super::documents::{HOLDERS, HolderDoc, HolderState, is_token};
use super::outcome::StoreError;
use super::{Acknowledge, LeaseStore, MAX_TIME, Read};
use crate::name::{LeaseToken, PodId};
use crate::revocation::RevocationReason;

/// A lease of a pod, and how often it had been used when it was listed.
#[derive(Debug, Clone)]
pub struct Holding {
    pub(crate) token: LeaseToken,
    pub(crate) pod: PodId,
    pub(crate) beats: i64,
}

impl Holding {
    /// The lease.
    pub fn token(&self) -> &LeaseToken {
        &self.token
    }
}

impl LeaseStore {
    /// The pods that hold anything. Index keys are examined in proportion to the pods.
    pub(crate) async fn pods_with_leases(
        &self,
        deadline: Instant,
    ) -> Result<Vec<PodId>, StoreError> {
        // A range, for whether a field exists is not in an index: the documents of all leases would be read for it.
        let filter = doc! { "state": HolderState::Held, "pod": { "$gt": "" } };
        self.distinct_pods("list pods with leases", filter, deadline)
            .await
    }

    /// Up to `limit` leases of a pod.
    pub(crate) async fn holdings_of(
        &self,
        pod: &PodId,
        limit: i64,
        deadline: Instant,
    ) -> Result<Vec<Holding>, StoreError> {
        let filter = doc! { "state": HolderState::Held, "pod": pod.as_str(), "_id": is_token() };
        let found = self
            .step("list leases of a pod", deadline, async {
                let holders = self.holders(&Read::Latest);
                let find = holders
                    .find(filter)
                    .projection(doc! { "_id": 1, "beats": 1 });
                Read::Latest.find(find.limit(limit)).await
            })
            .await?;
        Ok(found
            .iter()
            .filter_map(|holder| {
                Some(Holding {
                    token: LeaseToken::new(holder.get_str("_id").ok()?).ok()?,
                    pod: pod.clone(),
                    beats: super::counters::number(holder.get("beats")),
                })
            })
            .collect())
    }

    /// HELD becomes REVOKING if the holder has not been used since it was listed. That its pod is dead stands in another
    /// collection and cannot be in this filter; whoever came back to life and used its lease keeps it.
    pub(crate) async fn revoke_unused(
        &self,
        holding: &Holding,
        deadline: Instant,
    ) -> Result<Option<HolderDoc>, StoreError> {
        let filter = doc! {
            "_id": holding.token.as_str(),
            "state": HolderState::Held,
            "pod": holding.pod.as_str(),
            "beats": holding.beats,
        };
        self.revoke(filter, RevocationReason::Pod, None, deadline)
            .await
    }

    /// The pods that clean-ups wait for: alive when they were asked, and they did not do it.
    pub(crate) async fn waited_for(&self, deadline: Instant) -> Result<Vec<PodId>, StoreError> {
        let filter = doc! { "state": HolderState::Revoking, "revocation.waitsForPod": true };
        self.distinct_pods("list pods waited for", filter, deadline)
            .await
    }

    /// Such a pod is dead by now, so what waited for it need not wait any longer.
    pub(crate) async fn stop_waiting_for(
        &self,
        pod: &PodId,
        deadline: Instant,
    ) -> Result<(), StoreError> {
        let mut filter = unclaimed(doc! { "pod": pod.as_str() });
        filter.insert("revocation.waitsForPod", true);
        let statement = doc! {
            "q": filter,
            "u": [{ "$set": { "revocation.nextTryAt": "$$NOW", "revocation.waitsForPod": false } }],
            "multi": true,
        };
        let step = "hasten clean-ups";
        let sent = self.update(
            step,
            deadline,
            HOLDERS,
            vec![statement],
            Acknowledge::Majority,
        );
        sent.await.map(drop)
    }

    async fn distinct_pods(
        &self,
        step: &'static str,
        filter: Document,
        deadline: Instant,
    ) -> Result<Vec<PodId>, StoreError> {
        let found = self
            .step(step, deadline, async {
                let holders = self.holders(&Read::Latest);
                Ok(holders.distinct("pod", filter).max_time(MAX_TIME).await?)
            })
            .await?;
        Ok(found
            .iter()
            .filter_map(|pod| PodId::new(pod.as_str()?).ok())
            .collect())
    }
}
