//! REVOKING documents on their way to the end: which are due, who works on one, and how it went.
//!
//! A *claim* is the right to run the clean-up, for a minute, held by whoever wrote it last. It is in the filter of what
//! ends the clean-up, so one whose claim ran out and was taken over ends nothing.

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use tokio::time::Instant;

use super::documents::{HOLDERS, HolderDoc, HolderState, SlotReturn, is_token};
use super::holders::{Decision, readable};
use super::outcome::StoreError;
use super::{Acknowledge, LeaseStore, Read};
use crate::name::{LeaseToken, LeaseType, PodId};

/// After this many tries that did not succeed, a clean-up is marked as failed, for an operator to look at.
pub(crate) const TRIES: i64 = 10;
/// How long it then waits between tries.
pub(crate) const WHEN_FAILED: Duration = Duration::from_secs(3600);
/// Nobody waits longer than for the longest time to live, which is a week.
const FAR: Duration = Duration::from_secs(8 * 24 * 3600);
/// How long a claim keeps others away. Longer than any one try of a clean-up may take.
pub(crate) const CLAIM: Duration = Duration::from_secs(60);

/// A REVOKING document whose clean-up may be begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The lease.
    pub token: LeaseToken,
    /// Which handler it needs.
    pub lease_type: LeaseType,
    /// Whose it was.
    pub tenant: String,
}

impl Due {
    fn fields() -> Document {
        doc! { "type": 1, "tenantId": 1 }
    }

    fn of(holder: &Document) -> Option<Self> {
        Some(Self {
            token: LeaseToken::new(holder.get_str("_id").ok()?).ok()?,
            lease_type: LeaseType::new(holder.get_str("type").ok()?).ok()?,
            tenant: holder.get_str("tenantId").unwrap_or_default().to_owned(),
        })
    }
}

/// A claimed document: to be read as a holder, or broken.
pub(crate) struct Claimed {
    pub(crate) holder: Result<HolderDoc, StoreError>,
    /// How often its clean-up was begun, this time included.
    pub(crate) attempts: i64,
}

/// What is written of a try that did not succeed.
pub(crate) struct FailedTry<'a> {
    pub(crate) error: &'a str,
    pub(crate) pause: Duration,
    /// Is it for an operator to look at?
    pub(crate) failed: bool,
    /// Is it the living pod of the holder that did not do it?
    pub(crate) by_pod: bool,
    /// Could that pod not even be asked? Then it may take the clean-up by itself, due or not.
    pub(crate) unreached: bool,
}

impl LeaseStore {
    /// Up to `limit` due documents of one type, those that wait the longest first. Index keys are examined in proportion
    /// to what is given.
    pub(crate) async fn due(
        &self,
        lease_type: &LeaseType,
        limit: i64,
        deadline: Instant,
    ) -> Result<Vec<Due>, StoreError> {
        let filter = due(doc! { "type": lease_type.as_str(), "_id": is_token() });
        let found = self
            .step("find due clean-ups", deadline, async {
                let holders = self.holders(&Read::Latest);
                let find = holders.find(filter).projection(Due::fields());
                let find = find.sort(doc! { "revocation.nextTryAt": 1 }).limit(limit);
                Read::Latest.find(find).await
            })
            .await?;
        Ok(found.iter().filter_map(Due::of).collect())
    }

    /// Up to `limit` documents of these types whose clean-up others leave to this pod, for they could not ask it. An index
    /// holds these and nothing else.
    pub(crate) async fn left_to(
        &self,
        pod: &PodId,
        types: &[LeaseType],
        limit: i64,
        deadline: Instant,
    ) -> Result<Vec<Due>, StoreError> {
        let types: Vec<&str> = types.iter().map(LeaseType::as_str).collect();
        let mut filter = left_to(pod);
        filter.extend(doc! {
            "state": HolderState::Revoking,
            "type": { "$in": types },
            "_id": is_token(),
        });
        let found = self
            .step("find clean-ups left to this pod", deadline, async {
                let holders = self.holders(&Read::Latest);
                let find = holders.find(filter).projection(Due::fields());
                Read::Latest.find(find.limit(limit)).await
            })
            .await?;
        Ok(found.iter().filter_map(Due::of).collect())
    }

    /// Takes the right to clean up, if nobody has it and it is due, or left to the pod that asks. Counts as a try, and after
    /// so many of them as a failure until it succeeds: so one that kills its process, again and again, is seen, and does not
    /// go from pod to pod. What is left to a pod is so for one try: if its handler does not succeed, it is tried again when
    /// it is due.
    pub(crate) async fn claim(
        &self,
        token: &LeaseToken,
        claim: &str,
        by: &PodId,
        deadline: Instant,
    ) -> Result<Option<Claimed>, StoreError> {
        let step = "claim a clean-up";
        let filter = doc! {
            "_id": token.as_str(),
            "state": HolderState::Revoking,
            "$or": [is_due(), left_to(by)],
        };
        let until = doc! { "$add": ["$$NOW", CLAIM.as_millis() as i64] };
        // Whatever stands there, the claim can be written, or a broken document would come up again and again.
        let of =
            |is: Document, field: &str, otherwise: Bson| doc! { "$cond": [is, field, otherwise] };
        let attempts = of(
            doc! { "$isNumber": "$revocation.attempts" },
            "$revocation.attempts",
            0_i64.into(),
        );
        let revocation = of(
            doc! { "$eq": [{ "$type": "$revocation" }, "object"] },
            "$revocation",
            doc! {}.into(),
        );
        let failed = doc! { "$gte": [&attempts, TRIES] };
        let when_failed = doc! { "$add": ["$$NOW", WHEN_FAILED.as_millis() as i64] };
        let claimed = doc! {
            "claim": { "id": claim, "by": { "$literal": by.as_str() }, "until": &until },
            "nextTryAt": { "$cond": [&failed, when_failed, until] },
            "failed": failed,
            "attempts": { "$add": [attempts, 1_i64] },
            "unreached": false,
        };
        let update = doc! { "$set": { "revocation": { "$mergeObjects": [revocation, claimed] } } };
        let claimed = self.find_and_update(step, filter, update, deadline).await?;
        Ok(claimed.map(|holder| {
            let revocation = holder.get_document("revocation").ok();
            let attempts = revocation.and_then(|revocation| revocation.get("attempts"));
            Claimed {
                attempts: super::counters::number(attempts),
                holder: readable(step, holder),
            }
        }))
    }

    /// The same right for another minute and under another id, if nobody else has it by now.
    pub(crate) async fn renew_claim(
        &self,
        token: &LeaseToken,
        claims: &[String],
        renewed: &str,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let until = doc! { "$add": ["$$NOW", CLAIM.as_millis() as i64] };
        let update = vec![doc! { "$set": {
            "revocation.claim.id": renewed,
            "revocation.claim.until": &until,
            "revocation.nextTryAt": { "$max": ["$revocation.nextTryAt", until] },
        } }];
        // The new one as well, so that a second sending says the same.
        let mut claims = claims.to_vec();
        claims.push(renewed.to_owned());
        let filter = claimed(token, &claims);
        self.change("renew a claim", filter, update, deadline).await
    }

    /// The document, if this claim on it has not run out.
    pub(crate) async fn holder_under_claim(
        &self,
        token: &LeaseToken,
        claim: &str,
        deadline: Instant,
    ) -> Result<Option<HolderDoc>, StoreError> {
        let step = "look at a claim";
        let mut filter = claimed(token, &[claim.to_owned()]);
        filter.insert(
            "$expr",
            doc! { "$gt": ["$revocation.claim.until", "$$NOW"] },
        );
        let found = self.holders_matching(filter, deadline).await?;
        let readable = |holder: Result<_, _>| {
            holder.map_err(|broken: String| StoreError::malformed(step, broken))
        };
        found.into_iter().next().map(readable).transpose()
    }

    /// The clean-up is done: removes the document, if the claim is still the one it was done under, and gives the keys
    /// to unbook.
    pub(crate) async fn finish(
        &self,
        token: &LeaseToken,
        claims: &[String],
        deadline: Instant,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let filter = claimed(token, claims);
        self.remove("finish revocation", filter, Acknowledge::Majority, deadline)
            .await
    }

    /// The clean-up did not succeed: says why and when it is tried again, and lets go of the claim.
    pub(crate) async fn try_again(
        &self,
        token: &LeaseToken,
        claims: &[String],
        failed: &FailedTry<'_>,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let pause = i64::try_from(failed.pause.as_millis()).unwrap_or(i64::MAX);
        let update = vec![
            doc! { "$set": {
                "revocation.nextTryAt": { "$add": ["$$NOW", pause] },
                "revocation.lastError": { "$literal": failed.error },
                "revocation.failed": failed.failed,
                "revocation.waitsForPod": failed.by_pod,
                "revocation.unreached": failed.unreached,
            } },
            doc! { "$unset": "revocation.claim" },
        ];
        self.change(
            "note a failed clean-up",
            claimed(token, claims),
            update,
            deadline,
        )
        .await
    }

    /// The holder says that what it did has ended, so its clean-up need not wait for its time to be over.
    pub(crate) async fn confirm_end(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let mut filter = unclaimed(doc! { "_id": token.as_str() });
        filter.extend(doc! {
            "pod": { "$exists": false },
            "slotReturn": SlotReturn::AfterCleanup.as_str(),
        });
        let now = doc! { "$min": ["$revocation.nextTryAt", "$$NOW"] };
        let update = vec![doc! { "$set": { "revocation.nextTryAt": now } }];
        self.change("confirm the end", filter, update, deadline)
            .await
    }

    /// The pod that held the lease can be reached again.
    pub(crate) async fn hasten(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let mut filter = unclaimed(doc! { "_id": token.as_str() });
        filter.insert("pod", doc! { "$exists": true });
        let update = vec![doc! { "$set": { "revocation.nextTryAt": "$$NOW" } }];
        self.change("hasten a clean-up", filter, update, deadline)
            .await
    }

    /// An operator wants the clean-up to be tried now, as if for the first time. One that has not been tried yet is due, or
    /// waits for its holder to end.
    pub(crate) async fn retry(
        &self,
        token: &LeaseToken,
        tenant: Option<&str>,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let tried = doc! { "$gt": ["$revocation.attempts", 0] };
        let update = vec![doc! { "$set": {
            "revocation.nextTryAt": { "$cond": [tried, "$$NOW", "$revocation.nextTryAt"] },
            "revocation.failed": false,
            "revocation.attempts": 0_i64,
        } }];
        let mut filter = unclaimed(doc! { "_id": token.as_str() });
        if let Some(tenant) = tenant {
            filter.insert("tenantId", tenant);
        }
        self.change("retry a clean-up", filter, update, deadline)
            .await
    }

    /// An operator gives the clean-up up: removes the document, whoever works on it, and gives the keys to unbook.
    pub(crate) async fn abandon(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let filter = doc! { "_id": token.as_str(), "state": HolderState::Revoking };
        self.remove(
            "abandon a clean-up",
            filter,
            Acknowledge::Majority,
            deadline,
        )
        .await
    }

    /// HELD or REVOKING becomes REVOKING with its slot to be returned at once, whatever still runs. Gives the holder; the
    /// caller unbooks it.
    pub(crate) async fn force(
        &self,
        token: &LeaseToken,
        decision: &Decision,
        deadline: Instant,
    ) -> Result<Option<HolderDoc>, StoreError> {
        let step = "force a revocation";
        let mut filter = decision.filter(token);
        filter.insert(
            "state",
            doc! { "$in": [HolderState::Held, HolderState::Revoking] },
        );
        // Whatever stands there: one that cannot be read must not be one that cannot be ended.
        let is_document = doc! { "$eq": [{ "$type": "$revocation" }, "object"] };
        let before = doc! { "$cond": [&is_document, "$revocation", {}] };
        let was = |field: &str, otherwise: Bson| {
            let stored = doc! { "$ifNull": [format!("$revocation.{field}"), &otherwise] };
            doc! { "$cond": [&is_document, stored, otherwise] }
        };
        let mut revocation = doc! {
            "reason": was("reason", "revoke".into()),
            "at": was("at", "$$NOW".into()),
            "attempts": was("attempts", doc! { "$literal": 0_i64 }.into()),
            "nextTryAt": was("nextTryAt", "$$NOW".into()),
            "forced": true,
        };
        decision.sign(&mut revocation);
        let update = doc! { "$set": {
            "state": HolderState::Revoking,
            "slotReturn": SlotReturn::AtOnce.as_str(),
            "revocation": { "$mergeObjects": [before, revocation] },
        } };
        let forced = self.find_and_update(step, filter, update, deadline).await?;
        forced.map(|holder| readable(step, holder)).transpose()
    }

    async fn change(
        &self,
        step: &'static str,
        filter: Document,
        update: Vec<Document>,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let statement = doc! { "q": filter, "u": update };
        let sent = self.update(
            step,
            deadline,
            HOLDERS,
            vec![statement],
            Acknowledge::Majority,
        );
        Ok(sent.await?.get_i32("n").unwrap_or(0) == 1)
    }
}

/// REVOKING, and its next try is due. A claim moves the next try to its own end, so this also says that nobody has it.
/// What is no date is due as well: a broken document comes to light so.
fn due(mut filter: Document) -> Document {
    filter.insert("state", HolderState::Revoking);
    filter.extend(is_due());
    filter
}

fn is_due() -> Document {
    has_come("$revocation.nextTryAt")
}

/// A moment has come, or it is so far away that nothing of ours means it: what a primary wrote whose clock was ahead by
/// years would never come. Most of what is no date sorts before all dates, the rest after them.
fn has_come(moment: &str) -> Document {
    let far = doc! { "$add": ["$$NOW", FAR.as_millis() as i64] };
    doc! { "$or": [
        { "$expr": { "$lte": [moment, "$$NOW"] } },
        { "$expr": { "$gt": [moment, far] } },
    ] }
}

/// This pod's own, which others could not ask it to clean up. Every claim takes the mark away, and only the end of a claim
/// sets it, so this also says that nobody is at work on it.
fn left_to(pod: &PodId) -> Document {
    doc! { "pod": pod.as_str(), "revocation.waitsForPod": true, "revocation.unreached": true }
}

/// REVOKING, and nobody is at work on it.
pub(super) fn unclaimed(mut filter: Document) -> Document {
    filter.extend(doc! {
        "state": HolderState::Revoking,
        "$or": [
            { "revocation.claim": { "$exists": false } },
            has_come("$revocation.claim.until"),
        ],
    });
    filter
}

fn claimed(token: &LeaseToken, claims: &[String]) -> Document {
    doc! {
        "_id": token.as_str(),
        "state": HolderState::Revoking,
        "revocation.claim.id": { "$in": claims },
    }
}
