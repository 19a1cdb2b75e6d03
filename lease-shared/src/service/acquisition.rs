//! One call of acquire: attempts, and the wait between them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::LeaseService;
use super::attempt::{Attempt, Plan, attempt};
use super::wait::{Lines, Pauses, Place};
use crate::error::{AcquireError, Busy, HolderIdentity, OldestHolder, Unavailable};
use crate::lease::Lease;
use crate::reaper::Diagnosis;
use crate::request::LeaseRequest;
use crate::revocation::SlotReturn;
use crate::scope::Tenancy;
use crate::store::OPERATION;
use crate::store::documents::{HolderDoc, millis_between};

/// One call of acquire.
pub(super) struct Acquisition<'a> {
    pub(super) leases: &'a LeaseService,
    pub(super) request: &'a LeaseRequest,
    pub(super) slot_return: SlotReturn,
    pub(super) started: Instant,
    pub(super) wait_ends: Instant,
    pub(super) answer_by: Instant,
}

impl Acquisition<'_> {
    pub(super) async fn run(&self, plan: Plan) -> Result<Lease, AcquireError> {
        if plan.funnel.is_empty() {
            return Ok(Lease::noop(Some(plan.definition.resource.clone())));
        }
        // Who comes when others of this process already wait stands behind them, unless it will not wait at all.
        let waits = self.wait_ends > self.started;
        if let Some(step) = self
            .lines()
            .first_with_waiters(&plan.keys)
            .filter(|_| waits)
        {
            return self.wait(Arc::new(plan), step, None).await;
        }
        let plan = Arc::new(plan);
        loop {
            match self
                .attempt(&plan)
                .await
                .map_err(AcquireError::Unavailable)?
            {
                Attempt::Held(lease) => return Ok(lease),
                Attempt::Full(step) => {
                    let diagnosis = self.relieve(&plan, step).await;
                    match diagnosis {
                        Ok(diagnosis) if diagnosis.freed > 0 && Instant::now() < self.answer_by => {
                        }
                        diagnosis if waits => return self.wait(plan, step, diagnosis.ok()).await,
                        diagnosis => return Err(self.busy(&plan, step, diagnosis.ok())),
                    }
                }
            }
        }
    }

    /// Waits in line for the counter of `step`, and for whichever is found full later.
    async fn wait(
        &self,
        mut plan: Arc<Plan>,
        mut step: usize,
        mut diagnosis: Option<Diagnosis>,
    ) -> Result<Lease, AcquireError> {
        let mut place = self.join(&plan, step);
        let mut pauses = Pauses::new();
        let mut relieve_at = Instant::now() + next_relief(diagnosis.as_ref());
        // Set while the store's last word to this waiter was an error. A waiter rides out an outage: its place in line
        // would be lost, and the store may be back long before its wait ends.
        let mut outage: Option<Unavailable> = None;
        if let Some(diagnosis) = &diagnosis {
            self.tell(&plan, step, diagnosis);
        }
        loop {
            let pause = async {
                match place.is_active() {
                    true => tokio::time::sleep(pauses.next()).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                // With its turn, a waiter begins to pause between its polls.
                called = place.news() => if !called { continue },
                () = pause => {}
                () = tokio::time::sleep_until(self.wait_ends) => break,
            }
            if !place.is_active() {
                continue;
            }
            let polled = self.poll(&mut plan).await;
            // The poll may have found another definition, with other steps.
            let same = plan.keys.iter().position(|key| key == place.key());
            step = same.unwrap_or(0);
            match polled {
                Err(Stop::Answer(answer)) => return *answer,
                Err(Stop::Store(error)) => outage = Some(error),
                Ok(Polled::Room) => match self.attempt(&plan).await {
                    Ok(Attempt::Held(lease)) => return Ok(lease),
                    Ok(Attempt::Full(full)) => {
                        outage = None;
                        step = full;
                    }
                    Err(error) => outage = Some(error),
                },
                Ok(Polled::Full(full)) => {
                    outage = None;
                    step = full;
                }
            }
            if place.key() != plan.keys[step] {
                // What made this one look may be of use to who stands behind it.
                self.lines().call(&[place.key().to_owned()]);
                place = self.join(&plan, step);
                relieve_at = Instant::now();
                diagnosis = None;
            }
            // One of the line looks for what has expired since, so that a wait ends even where nobody sweeps.
            let due = outage.is_none() && Instant::now() >= relieve_at && place.position() == 0;
            if due {
                relieve_at = Instant::now() + next_relief(None);
            }
            if due && let Ok(found) = self.relieve(&plan, step).await {
                relieve_at = Instant::now() + next_relief(Some(&found));
                self.tell(&plan, step, &found);
                if found.freed > 0 {
                    self.lines().call(std::slice::from_ref(&plan.keys[step]));
                }
                diagnosis = Some(found);
            }
        }
        if let Some(error) = outage {
            return Err(AcquireError::Unavailable(error));
        }
        // The last word: what expired during the wait may still make room, and one whose turn never came has not looked.
        match self.relieve(&plan, step).await {
            Ok(found) if found.freed > 0 || found.in_use < plan.cap(step) => {
                if let Ok(Attempt::Held(lease)) = self.attempt(&plan).await {
                    return Ok(lease);
                }
                diagnosis = Some(found);
            }
            Ok(found) => diagnosis = Some(found),
            Err(error) if diagnosis.is_none() => {
                return Err(AcquireError::Unavailable(error));
            }
            Err(_) => {}
        }
        Err(self.busy(&plan, step, diagnosis))
    }

    /// One look at the counters, under the definition as it is by now: a cap that was changed during a long wait counts.
    async fn poll(&self, plan: &mut Arc<Plan>) -> Result<Polled, Stop> {
        let deadline = self.deadline();
        let definition = match self.leases.definition(self.request).await {
            Ok(Some(definition)) => definition,
            Ok(None) => return Err(Stop::Answer(Box::new(Ok(Lease::noop(None))))),
            // A broken document is its writer's to mend. Whoever waits on, first in a line that others share, would keep
            // them out for as long as it takes.
            Err(AcquireError::Unavailable(error)) if !matches!(error, Unavailable::Document(_)) => {
                return Err(Stop::Store(error));
            }
            Err(error) => return Err(Stop::Answer(Box::new(Err(error)))),
        };
        if definition != plan.definition {
            *plan = Arc::new(Plan::new(self.request, definition, self.slot_return));
            if plan.funnel.is_empty() {
                let noop = Lease::noop(Some(plan.definition.resource.clone()));
                return Err(Stop::Answer(Box::new(Ok(noop))));
            }
        }
        let full = self
            .leases
            .inner
            .store
            .first_full(&plan.funnel, deadline)
            .await;
        match full.map_err(|error| Stop::Store(error.into()))? {
            Some(step) => Ok(Polled::Full(step)),
            None => Ok(Polled::Room),
        }
    }

    async fn attempt(&self, plan: &Arc<Plan>) -> Result<Attempt, Unavailable> {
        let inner = Arc::clone(&self.leases.inner);
        self.detached(attempt(inner, Arc::clone(plan), self.deadline()))
            .await?
    }

    /// Looks at a full counter and frees what nobody holds any more.
    async fn relieve(&self, plan: &Plan, step: usize) -> Result<Diagnosis, Unavailable> {
        let reaper = self.leases.inner.reaper.clone();
        let (key, deadline) = (plan.keys[step].clone(), self.deadline());
        let relieved = self.detached(async move { reaper.relieve(&key, deadline).await });
        Ok(relieved.await??)
    }

    /// Runs in a task of its own, which finishes even if the caller goes: a lease that nobody takes is released by its
    /// drop, and what was revoked is not left half done.
    async fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let (done, result) = oneshot::channel();
        let work = self.leases.inner.background.spawn(async move {
            // What nobody takes is dropped in here, where it is still waited for, and not when the task has ended.
            let _ = done.send(work.await);
        });
        if let Ok(result) = result.await {
            return Ok(result);
        }
        match work.await.map_err(tokio::task::JoinError::try_into_panic) {
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime is being shut down.
            _ => Err(Unavailable::Ending),
        }
    }

    fn deadline(&self) -> Instant {
        (Instant::now() + OPERATION).min(self.answer_by)
    }

    fn lines(&self) -> &Lines {
        &self.leases.inner.lines
    }

    fn join(&self, plan: &Plan, step: usize) -> Place {
        self.lines()
            .join(&plan.keys[step], plan.funnel.steps()[step].cap.get())
    }

    fn tell(&self, plan: &Plan, step: usize, diagnosis: &Diagnosis) {
        if let Some(on_busy) = &self.request.on_busy {
            on_busy(&self.diagnosed(plan, step, Some(diagnosis.clone())));
        }
    }

    fn busy(&self, plan: &Plan, step: usize, diagnosis: Option<Diagnosis>) -> AcquireError {
        AcquireError::Busy(Box::new(self.diagnosed(plan, step, diagnosis)))
    }

    /// What the caller may know of a holder.
    fn shown(&self, holder: HolderDoc) -> OldestHolder {
        let held_for = millis_between(holder.since(), holder.now);
        let own = holder.tenant_id == self.request.tenancy.tenant();
        let tenancy = Tenancy::new(holder.tenant_id, holder.project_id, holder.user_id).ok();
        OldestHolder {
            held_for: Duration::from_millis(u64::try_from(held_for).unwrap_or(0)),
            identity: tenancy.filter(|_| own).map(|tenancy| HolderIdentity {
                token: holder.token,
                holder_ref: holder.holder_ref,
                tenancy,
            }),
        }
    }

    fn diagnosed(&self, plan: &Plan, step: usize, diagnosis: Option<Diagnosis>) -> Busy {
        let step = &plan.funnel.steps()[step];
        Busy {
            resource: step.key.resource().clone(),
            level: step.key.level(),
            scope: step.key.scope().clone(),
            // Full is what the attempt or the poll found; without a diagnosis that is all there is to say.
            in_use: diagnosis
                .as_ref()
                .map_or(step.cap.get().into(), |diagnosis| diagnosis.in_use),
            cap: step.cap.get(),
            broken: diagnosis.as_ref().map_or(0, |diagnosis| diagnosis.broken),
            awaiting_cleanup: diagnosis
                .as_ref()
                .map_or(0, |diagnosis| diagnosis.awaiting_cleanup),
            cleanup_error: diagnosis.as_ref().and_then(|diagnosis| {
                let own = self.request.tenancy.tenant();
                let mut errors = diagnosis.cleanup_errors.iter();
                let (_, error) = errors.find(|(tenant, _)| tenant == own)?;
                Some(error.clone())
            }),
            oldest: diagnosis.and_then(|diagnosis| Some(self.shown(diagnosis.oldest?))),
            waited: self.started.elapsed(),
        }
    }
}

enum Polled {
    Room,
    Full(usize),
}

/// Why a poll ends, besides its answer.
enum Stop {
    /// The store or a document failed: the waiter goes on.
    Store(Unavailable),
    /// The definition changed so that the acquire has its answer.
    Answer(Box<Result<Lease, AcquireError>>),
}

/// When to look again for what has expired: when the first of the holders will have, but within 1 to 10 seconds.
fn next_relief(diagnosis: Option<&Diagnosis>) -> Duration {
    let next = diagnosis
        .and_then(|diagnosis| diagnosis.next_expiry)
        .unwrap_or(Duration::MAX);
    next.clamp(Duration::from_secs(1), Duration::from_secs(10))
}
