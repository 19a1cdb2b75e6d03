//! Clean-ups: what is left to do for leases that were revoked, driven to its end by whichever process has the handlers.
//!
//! The state is in the REVOKING document, so a process that dies over a clean-up loses nothing: its claim runs out, and
//! another goes on. Not done here: choosing where a handler runs, and running it.

use std::time::Duration;

use mongodb::Database;
use mongodb::bson::doc;
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::in_full;
use crate::metrics;
use crate::name::{LeaseToken, LeaseType, PodId};
use crate::revocation::Revocation;
use crate::service::wait::Lines;
pub use crate::store::cleanups::Due;
use crate::store::cleanups::{CLAIM, FailedTry, TRIES, WHEN_FAILED};
use crate::store::documents::{HolderDoc, HolderState, millis_between};
use crate::store::holders::Decision;
use crate::store::{LeaseStore, StoreError, deadline, until_known};

/// The longest pause between two tries before a clean-up is marked as failed; the shortest is a second.
const LONGEST: Duration = Duration::from_secs(600);
/// How much of an error is kept.
const ERROR_LENGTH: usize = 500;
/// For how long it is tried to write what came of a clean-up: through an election, which takes a replica set twelve seconds
/// or so. A handler is not to run again because its end could not be written at once. Should the claim run out meanwhile, what
/// another took over is not ended.
const WRITE: Duration = Duration::from_secs(30);
/// For how long a clean-up is at least left to a pod that could not be asked: it looks every two seconds or so.
const LEFT: Duration = Duration::from_secs(5);

/// The clean-ups of one database.
#[derive(Debug, Clone)]
pub struct Cleanups {
    store: LeaseStore,
    lines: Lines,
}

/// A clean-up that this process may run, and nobody else for a minute.
#[derive(Debug)]
pub struct Cleanup {
    /// What is to be cleaned up.
    pub revocation: Revocation,
    /// How often it was begun, this time included.
    pub attempts: u32,
    /// How long ago the lease had been revoked when this was claimed, and when that was.
    waited: Duration,
    claimed: Instant,
    /// The counters whose slots come back with its end.
    levels: Vec<String>,
    claim: String,
    /// What the claim is called if a renewal took place whose answer was lost.
    or_else: Option<String>,
    store: LeaseStore,
    lines: Lines,
}

/// What became of a try that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextTry {
    /// When it is tried again.
    pub after: Duration,
    /// Is it marked as failed?
    pub failed: bool,
}

/// How long to wait after that many tries: from a second to ten minutes, then an hour.
fn next_try(attempts: i64) -> NextTry {
    if attempts >= TRIES {
        return NextTry {
            after: WHEN_FAILED,
            failed: true,
        };
    }
    let step = (attempts - 1).clamp(0, TRIES - 2) as f64 / (TRIES - 2) as f64;
    NextTry {
        after: Duration::from_secs_f64(LONGEST.as_secs_f64().powf(step)),
        failed: false,
    }
}

/// How long ago a lease had been revoked when it was claimed, by the server's clock: the claim says until when it lasts.
fn waited(claimed: &HolderDoc) -> Duration {
    let revocation = claimed.revocation.as_ref();
    let until =
        revocation.and_then(|revocation| Some((revocation.at, revocation.claim.as_ref()?.until)));
    let millis = until.map_or(0, |(at, until)| millis_between(at, until));
    Duration::from_millis(u64::try_from(millis).unwrap_or(0)).saturating_sub(CLAIM)
}

/// Nobody can guess it, so who shows it was told.
fn fresh_claim() -> String {
    Uuid::new_v4().simple().to_string()
}

impl Cleanups {
    /// How long a claim lasts, from some time between asking for it and getting it.
    pub const CLAIM: Duration = CLAIM;

    /// The clean-ups of a database, without a service.
    pub fn new(database: Database) -> Self {
        Self::of(LeaseStore::new(database), Lines::default())
    }

    pub(crate) fn of(store: LeaseStore, lines: Lines) -> Self {
        Self { store, lines }
    }

    /// Up to `limit` clean-ups of each of these types that are due and that nobody works on.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn due(&self, types: &[LeaseType], limit: i64) -> Result<Vec<Due>, StoreError> {
        let mut due = Vec::new();
        // One by one: asking which types are in revocation at all reads everything that is.
        for lease_type in types {
            due.extend(self.store.due(lease_type, limit, deadline()).await?);
        }
        Ok(due)
    }

    /// Up to `limit` clean-ups of these types that others leave to this pod, for they could not ask it: it may claim them
    /// before they are due.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn left_to(
        &self,
        pod: &PodId,
        types: &[LeaseType],
        limit: i64,
    ) -> Result<Vec<Due>, StoreError> {
        self.store.left_to(pod, types, limit, deadline()).await
    }

    /// Takes the right to clean up, for a minute. Nothing: it is neither due nor left to this pod, another works on it, or
    /// it is done.
    ///
    /// A document that cannot be read is noted as failed, for an operator to look at, and is nothing as well.
    ///
    /// # Errors
    /// The store cannot be asked. Should it have been claimed nonetheless, it is free again in a minute.
    pub async fn claim(
        &self,
        token: &LeaseToken,
        by: &PodId,
    ) -> Result<Option<Cleanup>, StoreError> {
        let claim = fresh_claim();
        let Some(claimed) = self.store.claim(token, &claim, by, deadline()).await? else {
            return Ok(None);
        };
        let problem = match claimed.holder {
            Ok(holder) => {
                let levels = holder.levels.clone();
                let waited = waited(&holder);
                match Revocation::of(holder) {
                    Ok(revocation) => {
                        return Ok(Some(Cleanup {
                            revocation,
                            attempts: u32::try_from(claimed.attempts).unwrap_or(u32::MAX),
                            waited,
                            claimed: Instant::now(),
                            levels,
                            claim,
                            or_else: None,
                            store: self.store.clone(),
                            lines: self.lines.clone(),
                        }));
                    }
                    Err(problem) => problem,
                }
            }
            Err(error) => in_full(&error),
        };
        tracing::error!(lease.token = %token, problem, "a revoked holder cannot be read; its clean-up waits for an operator");
        let parked = FailedTry {
            error: &problem,
            pause: WHEN_FAILED,
            failed: true,
            by_pod: false,
            unreached: false,
        };
        self.store
            .try_again(token, &[claim], &parked, deadline())
            .await?;
        Ok(None)
    }

    /// What is to be cleaned up under another process's claim, and for how long that claim still lasts. Nothing: it has
    /// run out, another has it by now, or the clean-up is done.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn under_claim(
        &self,
        token: &LeaseToken,
        claim: &str,
    ) -> Result<Option<(Revocation, Duration)>, StoreError> {
        let Some(holder) = self
            .store
            .holder_under_claim(token, claim, deadline())
            .await?
        else {
            return Ok(None);
        };
        let claim = holder
            .revocation
            .as_ref()
            .and_then(|revocation| revocation.claim.as_ref());
        let left = claim.map_or(0, |claim| millis_between(holder.now, claim.until));
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        match Revocation::of(holder) {
            Ok(revocation) => Ok(Some((revocation, left))),
            Err(problem) => Err(StoreError::malformed("read a claimed clean-up", problem)),
        }
    }

    /// Is the lease still being revoked?
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn is_open(&self, token: &LeaseToken) -> Result<bool, StoreError> {
        // Counted and not read, for a broken document is one as well.
        let its = doc! { "_id": token.as_str(), "state": HolderState::Revoking };
        Ok(self.store.count(its, deadline()).await? > 0)
    }

    /// Tries a clean-up again now. False: it is under way, or there is none. One that waits for its holder to end has not
    /// been tried, and goes on waiting.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn retry(&self, token: &LeaseToken) -> Result<bool, StoreError> {
        self.retry_if(token, None).await
    }

    /// The same, if the lease is this tenant's.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn retry_of(&self, tenant: &str, token: &LeaseToken) -> Result<bool, StoreError> {
        self.retry_if(token, Some(tenant)).await
    }

    async fn retry_if(&self, token: &LeaseToken, tenant: Option<&str>) -> Result<bool, StoreError> {
        let deadline = deadline();
        let retry = || self.store.retry(token, tenant, deadline);
        Ok(until_known(deadline, retry).await?.value)
    }

    /// Gives a clean-up up: the lease is gone and its slots come back, whatever still runs. False: there is none.
    ///
    /// # Errors
    /// The store cannot be asked; its slots may come back nonetheless.
    pub async fn abandon(&self, token: &LeaseToken) -> Result<bool, StoreError> {
        let deadline = deadline();
        let Some(keys) = self.store.keys_of(token, deadline).await? else {
            return Ok(false);
        };
        let abandon = || self.store.abandon(token, deadline);
        let abandoned = until_known(deadline, abandon).await?;
        // Not found although it was sent before: that sending may have removed it, and nobody else will unbook it soon.
        let ours = abandoned.value.is_some()
            || (abandoned.sent_before && self.store.keys_of(token, deadline).await?.is_none());
        if !ours {
            return Ok(false);
        }
        let unbook = || self.store.unbook(token, &keys, deadline);
        until_known(deadline, unbook).await?;
        self.lines.call(&keys);
        Ok(true)
    }

    /// Revokes a lease whose document cannot be read, and gives its slots back at once, whatever still runs. Needs no more of
    /// the document than what it books. False: there is no such lease.
    ///
    /// # Errors
    /// It is not known whether that was done. To do it again does no harm.
    pub async fn force_broken(
        &self,
        token: &LeaseToken,
        decision: &Decision,
    ) -> Result<bool, StoreError> {
        let deadline = deadline();
        let Some(keys) = self.store.keys_of(token, deadline).await? else {
            return Ok(false);
        };
        match until_known(deadline, || self.store.force(token, decision, deadline)).await {
            Ok(forced) if forced.value.is_none() => return Ok(false),
            // What came back is what cannot be read: it was written.
            Ok(_) => {}
            Err(error) if error.is_malformed() => {}
            Err(error) => return Err(error),
        }
        let unbook = || self.store.unbook(token, &keys, deadline);
        until_known(deadline, unbook).await?;
        self.lines.call(&keys);
        Ok(true)
    }

    /// Makes a clean-up due now, without counting its tries anew. For the pod whose own lease it is.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn hasten(&self, token: &LeaseToken) -> Result<bool, StoreError> {
        self.store.hasten(token, deadline()).await
    }

    /// The pods that clean-ups wait for: they were alive when they were asked, and did not do it.
    pub async fn waited_for(&self) -> Result<Vec<PodId>, StoreError> {
        self.store.waited_for(deadline()).await
    }

    /// Makes what waits for a pod due now, for the pod is dead.
    pub async fn stop_waiting_for(&self, pod: &PodId) -> Result<(), StoreError> {
        self.store.stop_waiting_for(pod, deadline()).await
    }
}

impl Cleanup {
    /// The claim, for another process to work under.
    pub fn claim(&self) -> &str {
        &self.claim
    }

    fn claims(&self) -> Vec<String> {
        std::iter::once(self.claim.clone())
            .chain(self.or_else.clone())
            .collect()
    }

    /// Makes the claim last for another minute, under another name: who was told the old one may not work any more.
    /// False: it had run out and another works on it, so this process must not.
    ///
    /// # Errors
    /// It is not known whether it was renewed.
    pub async fn renew(&mut self) -> Result<bool, StoreError> {
        let (token, fresh) = (&self.revocation.token, fresh_claim());
        let deadline = deadline();
        let claims = self.claims();
        let renew = || self.store.renew_claim(token, &claims, &fresh, deadline);
        match until_known(deadline, renew).await {
            Ok(renewed) => {
                if renewed.value {
                    (self.claim, self.or_else) = (fresh, None);
                }
                Ok(renewed.value)
            }
            Err(error) => {
                self.or_else = Some(fresh);
                Err(error)
            }
        }
    }

    /// The clean-up is done: the lease's document goes, and its slots come back.
    ///
    /// False: the claim had run out and another works on it, or an operator gave it up.
    ///
    /// While the store is away it tries again, for half a minute.
    ///
    /// # Errors
    /// It is not known whether that was written. If it was not, the clean-up is run again; if it was, a reconcile frees the
    /// slots.
    pub async fn finish(self) -> Result<bool, StoreError> {
        let token = &self.revocation.token;
        let until = Instant::now() + WRITE;
        let claims = self.claims();
        let finish = || self.store.finish(token, &claims, deadline());
        let finished = until_known(until, finish).await?;
        // Not found although it was sent before: that sending may have removed it, and nobody else will unbook it soon.
        let ours = finished.value.is_some()
            || (finished.sent_before && {
                let holder = || self.store.holder(token, deadline());
                until_known(until, holder).await?.value.is_none()
            });
        if ours {
            let unbook = || self.store.unbook(token, &self.levels, deadline());
            until_known(until, unbook).await?;
            self.lines.call(&self.levels);
            let since = self.waited.saturating_add(self.claimed.elapsed());
            metrics::cleaned_up(&self.revocation.lease_type, since);
        }
        Ok(ours)
    }

    /// It did not succeed, for this reason, and is tried again later. `by_pod`: the living pod of the holder was asked
    /// to do it and did not, so it is tried at once when that pod dies.
    ///
    /// # Errors
    /// That could not be written. It is tried again when the claim has run out.
    pub async fn failed(self, error: &str, by_pod: bool) -> Result<NextTry, StoreError> {
        self.note(error, Duration::ZERO, by_pod, false).await
    }

    /// The living pod of the holder could not be asked, for this reason: it is left to that pod, which finds it by itself and
    /// need not wait, and others ask again later. As with [`failed`](Self::failed), it is tried at once when the pod dies.
    ///
    /// # Errors
    /// That could not be written. It is tried again when the claim has run out.
    pub async fn leave_to_pod(self, error: &str) -> Result<NextTry, StoreError> {
        self.note(error, LEFT, true, true).await
    }

    async fn note(
        self,
        error: &str,
        at_least: Duration,
        by_pod: bool,
        unreached: bool,
    ) -> Result<NextTry, StoreError> {
        let next = next_try(self.attempts.into());
        let pause = next.after.mul_f64(0.75 + fastrand::f64() / 2.0);
        let failed = FailedTry {
            error: &error.chars().take(ERROR_LENGTH).collect::<String>(),
            pause: pause.max(at_least),
            failed: next.failed,
            by_pod,
            unreached,
        };
        let claims = self.claims();
        let note = || {
            self.store
                .try_again(&self.revocation.token, &claims, &failed, deadline())
        };
        until_known(Instant::now() + WRITE, note).await?;
        Ok(NextTry {
            after: failed.pause,
            ..next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_from_a_second_to_ten_minutes_and_after_ten_tries_it_is_hourly() {
        let seconds: Vec<_> = (1..=11)
            .map(|tries| next_try(tries).after.as_secs())
            .collect();
        assert_eq!(seconds, [1, 2, 4, 11, 24, 54, 121, 269, 600, 3600, 3600]);
        assert!(!next_try(9).failed && next_try(10).failed);
    }
}
