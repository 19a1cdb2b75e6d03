//! The periodic round: reaps what is idle or whose pod is dead, and removes what never came to be. And beside it, less often,
//! what looks at everything: reconciles, and tidies.
//!
//! Any number of pods sweep at the same time; conditional writes decide who takes what. A round that cannot do something
//! says so and goes on: the next round, of this pod or another, tries again. Not done here: cleaning up behind what was
//! revoked (the dispatcher).

mod guard;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lease_shared::{LeaseService, PodId, ReconcileReport, in_full};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::api::SweepReply;
use crate::cluster::{PodLiveness, PodRegistry, PodStatus};
use crate::jitter::around;
use crate::metrics;
use guard::{Guard, Roll};

/// Why something could not be listed.
type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// Sweeps.
#[derive(Debug, Clone)]
pub(crate) struct Sweeper {
    pub(crate) leases: LeaseService,
    pub(crate) registry: Arc<PodRegistry>,
    /// How long a pause between two rounds is, on average.
    pub(crate) interval: Duration,
    /// How long between two reconciles, which look at every counter.
    pub(crate) reconcile_interval: Duration,
    pub(crate) state: Arc<State>,
}

/// What the rounds of one pod remember.
#[derive(Debug)]
pub(crate) struct State {
    began: Instant,
    guard: Mutex<Guard>,
    last: std::sync::Mutex<Option<Instant>>,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            guard: Mutex::default(),
            last: std::sync::Mutex::default(),
        }
    }

    /// When the last round ended that could look at everything.
    pub(crate) fn last_sweep(&self) -> Option<Instant> {
        *self.last()
    }

    /// How long nothing has been swept: one that never ends is old as well.
    pub(crate) fn sweep_age(&self) -> Duration {
        self.last_sweep().unwrap_or(self.began).elapsed()
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Sweeper {
    /// Sweeps and reconciles again and again until it is told to stop. Neither waits for the other: to look at every counter
    /// may take long.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let sweeping = self.repeat(self.interval, &stop, Self::sweep);
        let reconciling = self.repeat(self.reconcile_interval, &stop, Self::reconcile);
        tokio::join!(sweeping, reconciling);
    }

    /// The first pause is a random part of the sweep's interval, so that pods that were started together do not work in step,
    /// and what an outage left is found soon.
    async fn repeat<F>(&self, interval: Duration, stop: &CancellationToken, work: fn(Self) -> F)
    where
        F: Future<Output = SweepReply> + Send + 'static,
    {
        let mut pause = first_pause(self.interval, fastrand::f64());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            // In a task of its own, so that a panic over one document does not end all of it. It ends with this one.
            let mut round = AbortOnDropHandle::new(tokio::spawn(work(self.clone())));
            tokio::select! {
                () = stop.cancelled() => return,
                ended = &mut round => match ended {
                    Ok(report) => tell(&report),
                    Err(error) => {
                        ::metrics::counter!(metrics::SWEEP_PANICS).increment(1);
                        tracing::error!(%error, "a sweep or a reconcile ended in a panic; the next begins as usual");
                    }
                },
            }
            pause = next_pause(interval, fastrand::f64());
        }
    }

    /// One round, and all that is else done only once in a while, as an operator asks for it.
    pub(crate) async fn sweep_thoroughly(self) -> SweepReply {
        let mut report = self.clone().sweep().await;
        let reconciled = self.reconcile().await;
        report.failed.extend(reconciled.failed);
        SweepReply {
            corrected: reconciled.corrected,
            drift: reconciled.drift,
            ..report
        }
    }

    /// One round over what has run out.
    async fn sweep(self) -> SweepReply {
        let swept = self.leases.sweep().await;
        let mut report = SweepReply {
            idle: swept.idle,
            stale: swept.stale,
            finished: swept.finished,
            failed: swept.failed,
            complete: swept.complete,
            ..SweepReply::default()
        };
        if let Err(problem) = self.reap_dead_pods(&mut report).await {
            report.failed.push(in_full(problem.as_ref()));
            report.complete = false;
        }
        if report.complete {
            *self.state.last() = Some(Instant::now());
        }
        report
    }

    /// One look at every counter and every pod.
    async fn reconcile(self) -> SweepReply {
        let mut report = SweepReply::default();
        match self.leases.reconciler().reconcile(false).await {
            Ok(reconciled) => note(&reconciled, &mut report),
            Err(error) => report.failed.push(in_full(&error)),
        }
        if let Err(error) = self.registry.remove_old().await {
            report.failed.push(in_full(&error));
        }
        report
    }

    /// Revokes what dead pods hold, and hastens the clean-ups that waited for them.
    async fn reap_dead_pods(&self, report: &mut SweepReply) -> Result<(), Trouble> {
        let holding = self.leases.pods_with_leases().await?;
        let cleanups = self.leases.cleanups();
        let waited_for = cleanups.waited_for().await?;
        let liveness = self.registry.liveness().await?;
        // Judged in every round, whether anything is held or not: it is about who was there before.
        if let Some(held_back) = self.state.guard.lock().await.judge(roll(&liveness)) {
            let why = format!(
                "{} of {} pods look dead at once, which is more likely the store's or the network's trouble: their leases \
                 are left alone (round {} of at most 3)",
                held_back.missing, held_back.of, held_back.round
            );
            tracing::error!("{why}");
            ::metrics::counter!(metrics::SWEEP_HELD_BACK).increment(1);
            report.waiting = Some(why);
            return Ok(());
        }
        self.spare(&holding, &liveness, report);
        for pod in waited_for.iter().filter(|pod| liveness.is_dead(pod)) {
            if let Err(error) = cleanups.stop_waiting_for(pod).await {
                report.failed.push(in_full(&error));
            }
        }
        for pod in holding.iter().filter(|pod| liveness.is_dead(pod)) {
            if let Err(problem) = self.reap_pod(pod, report).await {
                report.failed.push(in_full(problem.as_ref()));
                report.complete = false;
            }
        }
        Ok(())
    }

    async fn reap_pod(&self, pod: &PodId, report: &mut SweepReply) -> Result<(), Trouble> {
        let still_dead = || async {
            let looked = self.registry.liveness_of(pod).await?;
            Ok::<_, Trouble>(looked.is_dead(pod))
        };
        let leases = &self.leases;
        let reaped = leases
            .revoke_all_of_dead_pod(pod, still_dead, &mut report.failed)
            .await?;
        report.pod += reaped.count;
        report.complete &= reaped.complete;
        Ok(())
    }

    /// Says whose leases are left alone although they look dead.
    fn spare(&self, holding: &[PodId], liveness: &PodLiveness, report: &mut SweepReply) {
        let silent = |pod: &&PodId| !liveness.is_alive(pod) && !liveness.is_dead(pod);
        let spared = holding.iter().filter(silent).count();
        if spared > 0 {
            let why = format!(
                "{spared} silent pods may be alive, for this pod was itself not in touch with the store for as long as they \
                 may be silent: their leases are left alone for now"
            );
            tracing::info!("{why}");
            report.waiting = Some(why);
        }
    }
}

/// Any part of the interval: pods that were started together begin at different times.
fn first_pause(interval: Duration, random: f64) -> Duration {
    around(interval, 0.0..=1.0, random)
}

/// The interval and a quarter of it more or less, so that they do not come into step.
fn next_pause(interval: Duration, random: f64) -> Duration {
    around(interval, 0.75..=1.25, random)
}

/// By the newest row of each name: the older ones are of those that it replaced.
fn roll(liveness: &PodLiveness) -> Roll {
    let mut roll = Roll::default();
    let mut seen = HashSet::new();
    for pod in liveness.pods() {
        let name = format!("{}/{}", pod.cluster_id, pod.node_name);
        if !seen.insert(name.clone()) {
            continue;
        }
        // Those that are not believed dead yet are not missing yet.
        if !liveness.is_dead(&pod.pod) {
            roll.alive.insert(name);
        } else if pod.status == PodStatus::Stopped {
            roll.stopped.insert(name);
        }
    }
    roll
}

fn note(reconciled: &ReconcileReport, report: &mut SweepReply) {
    ::metrics::gauge!(metrics::DRIFT).set(reconciled.drift.len() as f64);
    report.corrected = reconciled.orphans.len();
    report.drift = reconciled
        .drift
        .iter()
        .map(|drift| format!("{}: {}", drift.counter, drift.problem))
        .collect();
}

fn tell(report: &SweepReply) {
    ::metrics::counter!(metrics::SWEEP_FAILED).increment(report.failed.len() as u64);
    for problem in &report.failed {
        tracing::warn!(
            problem,
            "a sweep could not do something; the next tries again"
        );
    }
    for drift in &report.drift {
        tracing::warn!(drift, "a counter and its holders differ");
    }
    let SweepReply {
        idle,
        pod,
        stale,
        finished,
        corrected,
        ..
    } = report;
    if idle + pod + stale + finished + corrected > 0 {
        tracing::info!(idle, pod, stale, finished, corrected, "swept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_pause_is_a_part_of_the_interval_and_the_others_are_about_as_long() {
        let interval = Duration::from_secs(30);
        // Where in the range, the first pause, and the others.
        for (random, first, next) in [(0.0, 0.0, 22.5), (0.5, 15.0, 30.0), (1.0, 30.0, 37.5)] {
            let seconds = Duration::from_secs_f64;
            assert_eq!(first_pause(interval, random), seconds(first), "{random}");
            assert_eq!(next_pause(interval, random), seconds(next), "{random}");
        }
        assert_eq!(next_pause(Duration::MAX, 1.0), Duration::MAX);
    }
}
