//! What takes longer than a call should: begun by one call, asked about by others.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{FutureExt, StreamExt};
use lease_shared::{Decision, Holding, LeaseService, Revoked, SlotAfter, in_full};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::api::JobProgress;
use crate::sweeper::Sweeper;

/// How many jobs are remembered.
const REMEMBERED: usize = 100;
/// How many leases one job revokes at the same time.
const TOGETHER: usize = 8;
/// How many leases of a pod one job is about.
const LEASES: i64 = 10_000;

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
        let progress = progress.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(progress.clone())
    }

    /// Revokes what the decision's pod holds now.
    pub(crate) fn revoke_pod(&self, leases: LeaseService, decision: Decision) -> String {
        self.begin(async move |progress| {
            let Some(pod) = &decision.pod else { return };
            let listed = match leases.held_by(pod, LEASES).await {
                Ok(listed) => listed,
                Err(error) => {
                    progress.change(|progress| progress.failed.push(in_full(&error)));
                    return;
                }
            };
            progress.change(|progress| progress.total = listed.len());
            futures_util::stream::iter(&listed)
                .for_each_concurrent(TOGETHER, |holding| {
                    revoke(&leases, holding, &decision, &progress)
                })
                .await;
        })
    }

    /// Sweeps once.
    pub(crate) fn sweep(&self, sweeper: Sweeper) -> String {
        self.begin(async move |progress| {
            let swept = sweeper.sweep_once(true).await;
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
                progress.failed.extend(problem.map(str::to_owned));
                progress.done = true;
            });
        });
        id
    }
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
        let hangs = jobs.begin(async move |_| std::future::pending().await);
        assert_eq!(ended(&jobs, &well).await.failed, [""; 0]);
        let panicked = ended(&jobs, &panics).await;
        assert!(panicked.failed[0].contains("panicked"), "{panicked:?}");
        assert!(!jobs.progress(&hangs).unwrap().done);
        stop.cancel();
        let cut_off = ended(&jobs, &hangs).await;
        assert!(cut_off.failed[0].contains("shutting down"), "{cut_off:?}");
        assert_eq!(jobs.progress("no such job"), None);
    }
}
