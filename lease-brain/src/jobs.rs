//! What takes longer than a call should: begun by one call, asked about by others.

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{FutureExt, StreamExt};
use lease_shared::{Decision, Holding, LeaseService, Revoked, SlotAfter, StoreError, in_full};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::api::JobProgress;
use crate::sweeper::Sweeper;

/// How many jobs are remembered.
const REMEMBERED: usize = 100;
/// How many leases one job revokes at the same time.
const TOGETHER: usize = 8;
/// How many leases of a pod are listed at a time.
const BATCH: usize = 1000;
/// How many of them may fail in one job: what it says of each is told whole, whenever somebody asks how far it is.
const FAILURES: usize = 10_000;

/// The jobs of this pod.
#[derive(Debug, Clone)]
pub(crate) struct Jobs {
    all: Arc<Mutex<VecDeque<(String, Progress)>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug, Clone, Default)]
struct Progress(Arc<Mutex<JobProgress>>);

impl Progress {
    fn now(&self) -> JobProgress {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn change(&self, change: impl FnOnce(&mut JobProgress)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Jobs {
    /// Jobs that end early when `stop` is cancelled.
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self {
            all: Arc::default(),
            tasks: TaskTracker::new(),
            stop,
        }
    }

    /// How far a job is; nothing if it is not known.
    pub(crate) fn progress(&self, job: &str) -> Option<JobProgress> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, progress) = all.iter().find(|(id, _)| id == job)?;
        Some(progress.now())
    }

    /// Revokes what the decision's pod holds now.
    pub(crate) fn revoke_pod(&self, leases: LeaseService, decision: Decision) -> String {
        self.begin(async move |progress| {
            let all = revoke_all(&leases, &decision, &progress).await;
            progress.change(|progress| match all {
                // What was counted and did not come up is not held any more.
                Ok(All::Tried) => progress.gone += rest(progress),
                Ok(All::Stuck) => progress.left = rest(progress),
                Err(error) => {
                    progress.left = rest(progress);
                    progress.failed.push(in_full(&error));
                }
            });
        })
    }

    /// Sweeps once.
    pub(crate) fn sweep(&self, sweeper: Sweeper) -> String {
        self.begin(async move |progress| {
            let swept = sweeper.sweep_thoroughly().await;
            progress.change(|progress| progress.sweep = Some(swept));
        })
    }

    fn begin<F>(&self, work: impl FnOnce(Progress) -> F) -> String
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = Uuid::new_v4().simple().to_string();
        let progress = Progress::default();
        {
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() == REMEMBERED {
                all.pop_front();
            }
            all.push_back((id.clone(), progress.clone()));
        }
        let (work, stop) = (work(progress.clone()), self.stop.clone());
        self.tasks.spawn(async move {
            // Whatever becomes of it, it ends: somebody asks about it until then.
            let work = AssertUnwindSafe(work).catch_unwind();
            let problem = match stop.run_until_cancelled(work).await {
                Some(Ok(())) => None,
                Some(Err(_)) => Some("the job panicked; what is left was not done"),
                None => Some("the pod is shutting down; what is left was not done"),
            };
            progress.change(|progress| {
                if let Some(problem) = problem {
                    progress.left = rest(progress);
                    progress.failed.push(problem.to_owned());
                }
                progress.done = true;
            });
        });
        id
    }
}

/// How far a job came with the leases of a pod.
enum All {
    /// Each of them had its turn.
    Tried,
    /// Nothing could be done about those it had at hand, so it did not go on to the others.
    Stuck,
}

/// Goes through what the pod holds now, a batch at a time, until nothing is left of it or a batch makes no progress.
async fn revoke_all(
    leases: &LeaseService,
    decision: &Decision,
    progress: &Progress,
) -> Result<All, StoreError> {
    let Some(pod) = &decision.pod else {
        return Ok(All::Tried);
    };
    let Some(held) = leases.count_held_by(pod).await? else {
        return Ok(All::Tried);
    };
    progress.change(|progress| progress.total = held.count());
    let mut tried = HashSet::new();
    loop {
        // Those that could not be revoked are listed again, and must not be in the place of others.
        let limit = i64::try_from(BATCH + tried.len()).unwrap_or(i64::MAX);
        let mut listed = leases.still_held(&held, limit).await?;
        listed.retain(|holding| !tried.contains(holding.token()));
        if listed.is_empty() {
            return Ok(All::Tried);
        }
        let before = progress.now();
        futures_util::stream::iter(&listed)
            .for_each_concurrent(TOGETHER, |holding| {
                revoke(leases, holding, decision, progress)
            })
            .await;
        let after = progress.now();
        // One that was still being acquired when it was counted is one more.
        progress.change(|progress| progress.total = progress.total.max(through(progress)));
        if after.revoked + after.gone == before.revoked + before.gone
            || after.failed.len() >= FAILURES
        {
            return Ok(All::Stuck);
        }
        // What is revoked is not listed again.
        if after.revoked < before.revoked + listed.len() {
            tried.extend(listed.into_iter().map(|holding| holding.token().clone()));
        }
    }
}

/// How many leases have had their turn.
fn through(progress: &JobProgress) -> usize {
    progress.revoked + progress.gone + progress.failed.len()
}

/// How many of those that were counted have not.
fn rest(progress: &JobProgress) -> usize {
    progress.total.saturating_sub(through(progress))
}

async fn revoke(
    leases: &LeaseService,
    holding: &Holding,
    decision: &Decision,
    progress: &Progress,
) {
    let revoked = leases.revoke(holding.token(), decision).await;
    progress.change(|progress| match revoked {
        Ok(Revoked::Now(slot)) => {
            progress.revoked += 1;
            progress.cleanup_pending += usize::from(slot != SlotAfter::Free);
        }
        Ok(_) => progress.gone += 1,
        Err(error) => {
            let problem = format!("{}: {}", holding.token(), in_full(&error));
            progress.failed.push(problem);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ended(jobs: &Jobs, job: &str) -> JobProgress {
        let done = async {
            while !jobs.progress(job).unwrap().done {
                tokio::task::yield_now().await;
            }
        };
        let within = std::time::Duration::from_secs(10);
        tokio::time::timeout(within, done).await.expect("it ends");
        jobs.progress(job).unwrap()
    }

    #[tokio::test]
    async fn a_job_ends_whatever_becomes_of_it() {
        let stop = CancellationToken::new();
        let jobs = Jobs::new(stop.clone());
        let well = jobs.begin(async move |_| {});
        let panics = jobs.begin(async move |_| panic!("over one document"));
        let hangs = jobs.begin(async move |progress| {
            progress.change(|progress| (progress.total, progress.revoked) = (5, 2));
            std::future::pending().await
        });
        assert_eq!(ended(&jobs, &well).await.failed, [""; 0]);
        let panicked = ended(&jobs, &panics).await;
        assert!(panicked.failed[0].contains("panicked"), "{panicked:?}");
        assert!(!jobs.progress(&hangs).unwrap().done);
        stop.cancel();
        let cut_off = ended(&jobs, &hangs).await;
        assert!(cut_off.failed[0].contains("shutting down"), "{cut_off:?}");
        assert_eq!(cut_off.left, 3);
        assert_eq!(jobs.progress("no such job"), None);
    }
}
