//! What pods hold, and what becomes of it when they die.

use mongodb::bson::{DateTime, Document, doc};
use tokio::time::Instant;

use super::cleanups::unclaimed;
use super::counters::number;
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

/// What a pod held at one moment: whoever goes through it does not go on with what the pod acquires meanwhile.
#[derive(Debug, Clone)]
pub struct Held {
    pod: PodId,
    at: DateTime,
    count: usize,
}

impl Held {
    /// How many leases that were.
    pub fn count(&self) -> usize {
        self.count
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
        self.list_holdings(pod, of_pod(pod), limit, deadline).await
    }

    /// How many leases a pod holds now; nothing if it holds none.
    pub(crate) async fn count_holdings(
        &self,
        pod: &PodId,
        deadline: Instant,
    ) -> Result<Option<Held>, StoreError> {
        // A primary whose clock was ahead may have written some of these in what is the future now.
        let is_date = doc! { "$eq": [{ "$type": "$createdAt" }, "date"] };
        let created = doc! { "$cond": [is_date, "$createdAt", "$$NOW"] };
        let at = doc! { "$max": { "$max": ["$$NOW", created] } };
        let pipeline = vec![
            doc! { "$match": of_pod(pod) },
            doc! { "$group": { "_id": null, "count": { "$sum": 1 }, "at": at } },
        ];
        let step = "count leases of a pod";
        let counted = self
            .step(step, deadline, async {
                let holders = self.holders(&Read::Latest);
                Read::Latest.aggregate(holders.aggregate(pipeline)).await
            })
            .await?;
        let Some(counted) = counted.first() else {
            return Ok(None);
        };
        let at = counted.get_datetime("at");
        Ok(Some(Held {
            pod: pod.clone(),
            at: *at.map_err(|error| StoreError::malformed(step, error))?,
            count: usize::try_from(number(counted.get("count"))).unwrap_or(0),
        }))
    }

    /// Up to `limit` leases that a pod held at that moment, or was acquiring, and holds now. One that does not say when it
    /// was acquired is among them.
    pub(crate) async fn still_holds(
        &self,
        held: &Held,
        limit: i64,
        deadline: Instant,
    ) -> Result<Vec<Holding>, StoreError> {
        let mut filter = of_pod(&held.pod);
        filter.insert("createdAt", doc! { "$not": { "$gt": held.at } });
        self.list_holdings(&held.pod, filter, limit, deadline).await
    }

    async fn list_holdings(
        &self,
        pod: &PodId,
        filter: Document,
        limit: i64,
        deadline: Instant,
    ) -> Result<Vec<Holding>, StoreError> {
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
                    beats: number(holder.get("beats")),
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
        let filter = doc! { "revocation.waitsForPod": true };
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

/// Of a pod's, those that are held.
fn of_pod(pod: &PodId) -> Document {
    doc! { "state": HolderState::Held, "pod": pod.as_str(), "_id": is_token() }
}
