//! Ending a lease, and trying a clean-up again.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use lease_shared::{Decision, HolderState, LeaseToken, Revoked, SlotAfter};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Insights, InsightsError};
use crate::api::check_reason;

/// How many leases one call may name.
pub(crate) const AT_ONCE: usize = 100;
/// How many of them are revoked side by side.
const SIDE_BY_SIDE: usize = 8;
/// After this long no further one of them is begun.
const PATIENCE: Duration = Duration::from_secs(3);

/// What was seen of a lease when somebody decided to end it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Seen {
    /// The lease.
    #[schema(value_type = String)]
    pub(crate) token: LeaseToken,
    /// The state it was seen in. Only what is HELD can be revoked.
    pub(crate) state: HolderState,
}

/// What became of a lease that was to be revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevokeResult {
    /// The lease.
    #[schema(value_type = String)]
    pub(crate) token: LeaseToken,
    /// What was done.
    pub(crate) outcome: RevokeOutcome,
    /// When its slots come back, if it was revoked.
    pub(crate) slot: Option<SlotAfter>,
    /// The same in words.
    pub(crate) words: String,
}

/// What was done about a lease that was to be revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RevokeOutcome {
    /// It was held, and is not any more.
    Revoked,
    /// It is not what was seen: it is being revoked already, or not held yet. Nothing was done.
    HolderChanged,
    /// There is no such lease in this tenant, or not any more. Nothing was done.
    NoSuchLease,
    /// It is another user's, and no reason was given. Nothing was done.
    ReasonNeeded,
    /// Its document cannot be read. It is revoked, or was before, and an operator has to look.
    Unreadable,
    /// The store did not answer: it may have been revoked or not. To do it again does no harm.
    Unknown,
}

impl RevokeResult {
    fn without_slot(seen: &Seen, outcome: RevokeOutcome, words: &str) -> Self {
        Self {
            token: seen.token.clone(),
            outcome,
            slot: None,
            words: words.to_owned(),
        }
    }

    fn unknown(seen: &Seen) -> Self {
        let words = "the store did not answer, so it may have been revoked or not; to do it again does no harm";
        Self::without_slot(seen, RevokeOutcome::Unknown, words)
    }
}

impl Insights {
    /// Takes a lease of the tenant from its holder, if it is still what was seen. Without a reason, only the caller's own.
    ///
    /// All of that is in the filter of the one write that does it.
    ///
    /// # Cancellation
    /// What was begun is done, and logged.
    pub(crate) async fn revoke(
        &self,
        seen: &Seen,
        reason: Option<&str>,
        caller: &str,
    ) -> RevokeResult {
        let all = vec![seen.clone()];
        let mut results = self.revoke_each(all, reason, caller).await;
        results.remove(0)
    }

    /// The same for several, each by itself. A reason must have been given.
    pub(crate) async fn revoke_all(
        &self,
        seen: &[Seen],
        reason: &str,
        caller: &str,
    ) -> Vec<RevokeResult> {
        self.revoke_each(seen.to_vec(), Some(reason), caller).await
    }

    /// In a task of its own, which goes on if the caller goes: half of what somebody decided is not what was decided.
    async fn revoke_each(
        &self,
        seen: Vec<Seen>,
        reason: Option<&str>,
        caller: &str,
    ) -> Vec<RevokeResult> {
        let insights = self.clone();
        let (reason, caller) = (reason.map(str::to_owned), caller.to_owned());
        let all = seen.clone();
        let revoking = tokio::spawn(async move {
            let begun = Instant::now();
            let each = seen.iter();
            // None of them begins before it is polled.
            let each: Vec<_> = each
                .map(|seen| insights.revoke_one(seen, reason.as_deref(), &caller, begun))
                .collect();
            stream::iter(each)
                .buffered(SIDE_BY_SIDE)
                .collect::<Vec<_>>()
                .await
        });
        match revoking.await {
            Ok(results) => results,
            Err(error) => {
                tracing::error!(%error, "a revocation by an administrator of the tenant was cut off");
                all.iter().map(RevokeResult::unknown).collect()
            }
        }
    }

    async fn revoke_one(
        &self,
        seen: &Seen,
        reason: Option<&str>,
        caller: &str,
        begun: Instant,
    ) -> RevokeResult {
        // Where the store has not answered for the first, it is not asked for all others one after the other.
        if begun.elapsed() > PATIENCE {
            let words = "not begun, since the store is slow: try again";
            let outcome = RevokeOutcome::Unknown;
            return RevokeResult::without_slot(seen, outcome, words);
        }
        let result = self.outcome(seen, reason, caller).await;
        tracing::info!(
            tenant.id = self.views.tenant(),
            lease.token = %seen.token,
            by = caller,
            outcome = ?result.outcome,
            "revoke by an administrator of the tenant"
        );
        result
    }

    async fn outcome(&self, seen: &Seen, reason: Option<&str>, caller: &str) -> RevokeResult {
        let without = |outcome, words| RevokeResult::without_slot(seen, outcome, words);
        if seen.state != HolderState::Held {
            let words = "holder changed, or never held: only a lease that is HELD can be revoked";
            return without(RevokeOutcome::HolderChanged, words);
        }
        let decision = Decision {
            tenant: Some(self.views.tenant().to_owned()),
            user: reason.is_none().then(|| caller.to_owned()),
            pod: None,
            by: Some(caller.to_owned()),
            note: reason.map(str::to_owned),
        };
        match self.leases.revoke(&seen.token, &decision).await {
            Ok(Revoked::Now(slot)) => {
                let words = match slot {
                    SlotAfter::Free => "revoked; its slot is free, its clean-up follows",
                    SlotAfter::WhenCleanedUp => {
                        "revoked; its slot comes back when its clean-up is done"
                    }
                    SlotAfter::WhenEnded => {
                        "revoked; its slot comes back when its holder says that it has ended, or its time has run out"
                    }
                };
                RevokeResult {
                    slot: Some(slot),
                    ..without(RevokeOutcome::Revoked, words)
                }
            }
            Ok(Revoked::Already(_)) => without(
                RevokeOutcome::HolderChanged,
                "holder changed: it is being revoked already; nothing was done",
            ),
            Ok(Revoked::StillAcquiring | Revoked::OtherPod(_)) => without(
                RevokeOutcome::HolderChanged,
                "holder changed: it is not held yet; nothing was done",
            ),
            Ok(Revoked::NotHeld) => without(
                RevokeOutcome::NoSuchLease,
                "holder changed: there is no such lease any more; it was released, or revoked and cleaned up; nothing was done",
            ),
            Ok(Revoked::OtherUser) => without(
                RevokeOutcome::ReasonNeeded,
                "it is another user's: give a reason, which that user can read; nothing was done",
            ),
            Err(error) if error.is_malformed() => without(
                RevokeOutcome::Unreadable,
                "its document cannot be read, and an operator has to look; it is revoked, or was before",
            ),
            Err(error) => {
                tracing::warn!(error = lease_shared::in_full(&error), lease.token = %seen.token, "whether a lease was revoked is unknown");
                RevokeResult::unknown(seen)
            }
        }
    }

    /// Tries a clean-up of the tenant again now, as if for the first time. False: it is under way, or waits for the holder's end.
    pub(crate) async fn retry(
        &self,
        token: &LeaseToken,
        caller: &str,
    ) -> Result<bool, InsightsError> {
        let tenant = self.views.tenant();
        if self.cleanups().retry_of(tenant, token).await? {
            tracing::info!(
                tenant.id = tenant,
                lease.token = %token,
                by = caller,
                "clean-up to be tried again, by an administrator of the tenant"
            );
            return Ok(true);
        }
        match self.views.holder(token).await? {
            Some(_) => Ok(false),
            None => Err(InsightsError::NoSuchLease(token.clone())),
        }
    }
}

/// A reason as it is kept: without white space around it, and none if nothing is left.
pub(crate) fn checked_reason(reason: Option<&str>) -> Result<Option<String>, &'static str> {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    match reason {
        Some(reason) => check_reason(reason).map(|()| Some(reason.to_owned())),
        None => Ok(None),
    }
}
