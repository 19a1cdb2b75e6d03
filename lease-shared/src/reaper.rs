//! Takes back what its holder no longer uses.
//!
//! What counts as expired is judged by the server's clock, in the very write that takes the holder, so any number of
//! reapers may work at once, and one that listed a holder which was used since takes nothing. Two paths lead here: an
//! acquirer relieves the one counter it found full, and a sweep looks at everything.
//!
//! Not done here: orphan tokens of other counters (the reconciler), and the clean-up behind a revocation (handlers).

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;

use crate::error::in_full;
use crate::metrics;
use crate::name::{LeaseToken, LeaseType, PodId};
use crate::revocation::{
    Revocation, RevocationListener, RevocationReason, Revoked, SlotAfter, SlotReturn,
};
use crate::service::wait::Lines;
use crate::store::documents::{HolderDoc, HolderState, Standing, is_orphan};
use crate::store::holders::Decision;
use crate::store::holdings::Holding;
use crate::store::{LeaseStore, StoreError, deadline, until_known};

/// How many expired holders a sweep lists at a time.
const BATCH: i64 = 200;
/// How many it takes at the same time.
const TOGETHER: usize = 32;
/// How many that cannot be taken a round goes past.
const LEFT: usize = 2000;

#[derive(Debug, Clone)]
pub(crate) struct Reaper {
    store: LeaseStore,
    listener: Arc<dyn RevocationListener>,
    lines: Lines,
}

/// What a full counter looks like.
#[derive(Debug, Clone)]
pub(crate) struct Diagnosis {
    pub(crate) in_use: usize,
    pub(crate) oldest: Option<HolderDoc>,
    /// Slots of leases whose documents cannot be read, so that they never expire.
    pub(crate) broken: usize,
    /// Slots of revoked leases that come back when their clean-ups are done.
    pub(crate) awaiting_cleanup: usize,
    /// Whose clean-ups among these did not succeed yet, and why.
    pub(crate) cleanup_errors: Vec<(String, String)>,
    /// How many slots came back while looking.
    pub(crate) freed: usize,
    /// When the next of the holders will have expired, if none of them is used until then.
    pub(crate) next_expiry: Option<Duration>,
}

/// What came of taking one holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// It was used, released or taken since it was listed.
    No,
    /// It was taken, and its slots stay booked until its clean-up is done.
    SlotsKept,
    /// It was taken, and its slots came back.
    SlotsBack,
}

/// Lists and takes, a batch at a time, until there are none but those that cannot be taken; what could not be is added to
/// `failed`, a line each.
async fn take_all<T, E, L, F>(
    list: impl Fn(i64) -> L,
    token: impl Fn(&T) -> &LeaseToken,
    take: impl Fn(T) -> F,
    failed: &mut Vec<String>,
) -> Result<Reaped, E>
where
    T: Clone,
    L: Future<Output = Result<Vec<T>, E>>,
    F: Future<Output = Result<bool, StoreError>>,
{
    let (mut count, mut store_away) = (0, 0);
    let mut left = HashSet::new();
    // Where the store is away, or a great many cannot be taken, the rest is the next round's.
    while store_away < TOGETHER && left.len() < LEFT {
        // Those that were left are listed again, and must not hide what comes after them.
        let mut batch = list(BATCH + left.len() as i64).await?;
        batch.retain(|one| !left.contains(token(one)));
        if batch.is_empty() {
            let complete = true;
            return Ok(Reaped { count, complete });
        }
        let taking: Vec<_> = batch
            .iter()
            .map(|one| survived(token(one), take(one.clone())))
            .collect();
        let outcomes = futures_util::stream::iter(taking)
            .buffered(TOGETHER)
            .collect::<Vec<_>>()
            .await;
        for (one, outcome) in batch.iter().zip(outcomes) {
            match outcome {
                Ok(true) => {
                    count += 1;
                    continue;
                }
                Ok(false) => {}
                Err(error) => {
                    store_away += usize::from(error.is_transient());
                    failed.push(in_full(&error));
                }
            }
            left.insert(token(one).clone());
        }
    }
    let complete = false;
    Ok(Reaped { count, complete })
}

/// A panic over one lease must not end the round over the others.
async fn survived<T>(
    token: &LeaseToken,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let panicked = |_| {
        metrics::reap_panicked();
        let problem = format!("a fault of this program: it panicked over lease {token}");
        Err(StoreError::malformed("reap a lease", problem))
    };
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    ended.unwrap_or_else(panicked)
}

/// What came of taking all that can be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// How many were taken.
    pub count: usize,
    /// Was all looked at? Not, where the store could not be written to, or a great many cannot be taken.
    pub complete: bool,
}

/// What one sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Leases revoked because they were idle.
    pub idle: usize,
    /// Acquires that never finished, removed.
    pub stale: usize,
    /// Revoked commands whose time has run out, finished.
    pub finished: usize,
    /// What could not be done, one line each. The next sweep tries again.
    pub failed: Vec<String>,
    /// Could it be asked for all that has expired? Otherwise much may be left.
    pub complete: bool,
}

impl Reaper {
    pub(crate) fn new(
        store: LeaseStore,
        listener: Arc<dyn RevocationListener>,
        lines: Lines,
    ) -> Self {
        Self {
            store,
            listener,
            lines,
        }
    }

    pub(crate) async fn sweep(&self) -> SweepReport {
        let mut report = SweepReport {
            complete: true,
            ..SweepReport::default()
        };
        for state in [
            HolderState::Pending,
            HolderState::Held,
            HolderState::Revoking,
        ] {
            if let Err(error) = self.sweep_state(state, &mut report).await {
                report.failed.push(in_full(&error));
                report.complete = false;
            }
        }
        report
    }

    /// Takes all expired holders of one state.
    async fn sweep_state(
        &self,
        state: HolderState,
        report: &mut SweepReport,
    ) -> Result<(), StoreError> {
        let list = |limit| self.store.expired(state, limit, deadline());
        let take = |token: LeaseToken| async move {
            let taken = self.take_expired(&token, state, deadline()).await?;
            Ok(taken != Taken::No)
        };
        let reaped = take_all(list, |token| token, take, &mut report.failed).await?;
        match state {
            HolderState::Pending => report.stale += reaped.count,
            HolderState::Held => report.idle += reaped.count,
            HolderState::Revoking => report.finished += reaped.count,
        }
        report.complete &= reaped.complete;
        Ok(())
    }

    /// Takes one holder if it is still expired, and gives its slots back if they come back at once.
    async fn take_expired(
        &self,
        token: &LeaseToken,
        state: HolderState,
        deadline: Instant,
    ) -> Result<Taken, StoreError> {
        match state {
            HolderState::Pending => {
                let taken = self.store.take_stale(token, deadline).await?;
                self.give_back(token, taken, deadline).await
            }
            HolderState::Held => match self.store.revoke_idle(token, deadline).await? {
                Some(holder) => self.revoked(holder, RevocationReason::Idle, deadline).await,
                None => Ok(Taken::No),
            },
            HolderState::Revoking => {
                let taken = self.store.finish_expired_command(token, deadline).await?;
                self.give_back(token, taken, deadline).await
            }
        }
    }

    /// What follows a revocation. Should this process die in between, the REVOKING document tells others the rest.
    async fn revoked(
        &self,
        holder: HolderDoc,
        reason: RevocationReason,
        deadline: Instant,
    ) -> Result<Taken, StoreError> {
        metrics::reaped(reason);
        tracing::info!(
            lease.token = %holder.token,
            lease.resource = holder.resource,
            tenant.id = holder.tenant_id,
            reason = reason.as_str(),
            idle.seconds = holder.idle_millis() / 1000,
            "revoked a lease"
        );
        if holder.lease_type == LeaseType::command() {
            // One that was not idle goes on until its wrapper has ended it, or its time is over.
            let taken = self
                .store
                .finish_expired_command(&holder.token, deadline)
                .await?;
            // If there was none, another sweeper may have finished what this one began.
            return match self.give_back(&holder.token, taken, deadline).await? {
                Taken::No => Ok(Taken::SlotsKept),
                taken => Ok(taken),
            };
        }
        let returned = self.return_at_once(&holder, deadline).await;
        match Revocation::of(holder) {
            Ok(revocation) => self.listener.revoked(revocation),
            Err(problem) => {
                tracing::warn!(problem, "a revoked holder cannot be handed to its handler")
            }
        }
        returned
    }

    /// Unbooks a revoked holder if its slots come back at once.
    async fn return_at_once(
        &self,
        holder: &HolderDoc,
        deadline: Instant,
    ) -> Result<Taken, StoreError> {
        match holder.slot_return {
            SlotReturn::AtOnce => {
                self.unbook(&holder.token, &holder.levels, deadline).await?;
                Ok(Taken::SlotsBack)
            }
            SlotReturn::AfterCleanup => Ok(Taken::SlotsKept),
        }
    }

    /// Revokes what a dead pod holds, a batch at a time, until there is nothing but what cannot be taken. `still_dead` is
    /// asked after each listing: a lease that its pod uses after it was listed is not taken, and one that it used before
    /// would be.
    pub(crate) async fn revoke_all_of<E, F>(
        &self,
        pod: &PodId,
        still_dead: impl Fn() -> F,
        failed: &mut Vec<String>,
    ) -> Result<Reaped, E>
    where
        E: From<StoreError>,
        F: Future<Output = Result<bool, E>>,
    {
        let still_dead = &still_dead;
        let list = |limit| async move {
            let listed = self.store.holdings_of(pod, limit, deadline()).await?;
            match listed.is_empty() || still_dead().await? {
                true => Ok(listed),
                false => Ok(Vec::new()),
            }
        };
        let take = |holding: Holding| async move { self.revoke_unused(&holding).await };
        take_all(list, Holding::token, take, failed).await
    }

    /// Revokes a lease of a dead pod, unless it was used since it was listed.
    pub(crate) async fn revoke_unused(&self, holding: &Holding) -> Result<bool, StoreError> {
        let deadline = deadline();
        let Some(holder) = self.store.revoke_unused(holding, deadline).await? else {
            return Ok(false);
        };
        self.revoked(holder, RevocationReason::Pod, deadline)
            .await?;
        Ok(true)
    }

    /// Revokes a lease because an operator said so.
    pub(crate) async fn revoke_decided(
        &self,
        token: &LeaseToken,
        decision: &Decision,
    ) -> Result<Revoked, StoreError> {
        let deadline = deadline();
        let revoke = || self.store.revoke_decided(token, decision, deadline);
        let answer = until_known(deadline, revoke).await?;
        if let Some(holder) = answer.value {
            let slot = SlotAfter::of(&holder);
            return match self
                .revoked(holder, RevocationReason::Revoke, deadline)
                .await
            {
                Ok(Taken::SlotsBack) => Ok(Revoked::Now(SlotAfter::Free)),
                Ok(Taken::No | Taken::SlotsKept) => Ok(Revoked::Now(slot)),
                // It is revoked for certain; that its slot is free already is not.
                Err(error) => {
                    tracing::warn!(error = in_full(&error), lease.token = %token, "the slot of a revoked lease comes back with the next reconcile");
                    Ok(Revoked::Now(slot))
                }
            };
        }
        // Of another tenant is none of theirs, whatever stands in it.
        let tenant = decision.tenant.as_deref();
        let Some(holder) = self.store.holder_of(token, tenant, deadline).await? else {
            return Ok(Revoked::NotHeld);
        };
        if decision
            .user
            .as_ref()
            .is_some_and(|user| *user != holder.user_id)
        {
            return Ok(Revoked::OtherUser);
        }
        if decision.pod.is_some() && holder.pod != decision.pod.as_ref().map(PodId::to_string) {
            return Ok(Revoked::OtherPod(holder.pod));
        }
        match holder.state {
            HolderState::Pending => Ok(Revoked::StillAcquiring),
            // The answer to an earlier sending may have been lost, so its consequences are drawn again: they are idempotent.
            HolderState::Revoking if answer.sent_before => {
                self.return_at_once(&holder, deadline).await?;
                Ok(Revoked::Now(SlotAfter::of(&holder)))
            }
            HolderState::Revoking => Ok(Revoked::Already(SlotAfter::of(&holder))),
            // It was held by another pod a moment ago, or became HELD between our two looks.
            HolderState::Held => Ok(Revoked::StillAcquiring),
        }
    }

    /// Revokes a lease and gives its slots back at once, whatever still runs.
    pub(crate) async fn force(
        &self,
        token: &LeaseToken,
        decision: &Decision,
    ) -> Result<Option<HolderDoc>, StoreError> {
        let deadline = deadline();
        let force = || self.store.force(token, decision, deadline);
        let Some(holder) = until_known(deadline, force).await?.value else {
            return Ok(None);
        };
        metrics::reaped(RevocationReason::Revoke);
        self.unbook(&holder.token, &holder.levels, deadline).await?;
        Ok(Some(holder))
    }

    async fn give_back(
        &self,
        token: &LeaseToken,
        taken: Option<Vec<String>>,
        deadline: Instant,
    ) -> Result<Taken, StoreError> {
        let Some(keys) = taken else {
            return Ok(Taken::No);
        };
        self.unbook(token, &keys, deadline).await?;
        Ok(Taken::SlotsBack)
    }

    async fn unbook(
        &self,
        token: &LeaseToken,
        keys: &[String],
        deadline: Instant,
    ) -> Result<(), StoreError> {
        until_known(deadline, || self.store.unbook(token, keys, deadline)).await?;
        self.lines.call(keys);
        Ok(())
    }

    /// Looks at one counter that was found full: says who holds it, and frees what nobody holds any more. The tokens are
    /// read first and their holders afterwards, for in the other order a holder that came in between looks like none.
    pub(crate) async fn relieve(
        &self,
        key: &str,
        deadline: Instant,
    ) -> Result<Diagnosis, StoreError> {
        let mut session = self.store.ordered_reads().await?;
        let tokens = match self.store.counter(key, &mut session, deadline).await? {
            Some(counter) => counter.tokens,
            // Removed meanwhile, so there is room.
            None => Vec::new(),
        };
        let found = self
            .store
            .holders_of(&tokens, &mut session, deadline)
            .await?;
        let mut freed = 0;
        // One that cannot be read is there, so its token is no orphan.
        let standing = |holder: &Result<HolderDoc, String>| match holder {
            Ok(holder) => holder.standing(),
            Err(_) => Standing::Books,
        };
        let orphan = |token: &&String| is_orphan(found.get(*token).map(standing));
        let orphans: Vec<&str> = tokens.iter().filter(orphan).map(String::as_str).collect();
        if !orphans.is_empty() && self.store.unbook_orphans(key, &orphans, deadline).await? {
            metrics::corrected(orphans.len());
            freed += orphans.len();
        }
        let (mut holders, mut broken) = (Vec::new(), 0);
        for holder in found.into_values() {
            match holder {
                Ok(holder) => holders.push(holder),
                Err(problem) => {
                    tracing::warn!(problem, "a holder cannot be read");
                    broken += 1;
                }
            }
        }
        let expired: Vec<_> = holders
            .iter()
            .filter(|holder| holder.millis_to_expiry() < 0 && holder.can_be_taken())
            .map(|holder| (holder.token.clone(), holder.state))
            .collect();
        let taken = futures_util::stream::iter(expired)
            .map(async |(token, state)| self.take_expired(&token, state, deadline).await)
            .buffer_unordered(TOGETHER)
            .collect::<Vec<_>>()
            .await;
        for outcome in taken {
            match outcome {
                Ok(Taken::SlotsBack) => freed += 1,
                Ok(Taken::No | Taken::SlotsKept) => {}
                Err(error) => {
                    tracing::warn!(error = in_full(&error), "could not reap an idle lease");
                }
            }
        }
        let in_cleanup: Vec<&HolderDoc> = holders
            .iter()
            .filter(|holder| holder.state == HolderState::Revoking)
            .filter(|holder| holder.standing() == Standing::Books)
            .collect();
        let awaiting_cleanup = in_cleanup.len();
        let cleanup_errors = in_cleanup
            .iter()
            .filter_map(|holder| {
                let error = holder.revocation.as_ref()?.last_error.clone()?;
                Some((holder.tenant_id.clone(), error))
            })
            .collect();
        let next = holders
            .iter()
            .map(HolderDoc::millis_to_expiry)
            .filter(|millis| *millis >= 0)
            .min();
        Ok(Diagnosis {
            in_use: tokens.len(),
            broken,
            awaiting_cleanup,
            cleanup_errors,
            oldest: holders
                .into_iter()
                .filter(|holder| holder.state != HolderState::Revoking)
                .min_by_key(HolderDoc::since),
            freed,
            next_expiry: next
                .and_then(|millis| Some(Duration::from_millis(u64::try_from(millis).ok()?))),
        })
    }
}
