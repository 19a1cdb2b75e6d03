//! One compilation, from its guard's permission to its clean-up.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use lease_toolpack::{SessionEnd, SessionGuard};
use tokio::select;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{SourcesError, TexError};
use crate::job::{Progress, TexJob, TexResult};
use crate::local::{LocalExecutor, LocalRun};
use crate::remote::{RemoteExecutor, RemoteRun};

/// Compiles TeX documents.
#[derive(Debug, Clone)]
pub struct TexCompiler {
    executor: Arc<Executor>,
    runs: TaskTracker,
}

/// Where a document is compiled.
#[derive(Debug, Clone)]
pub enum Executor {
    /// By the latexmk of this machine.
    Local(LocalExecutor),
    /// By a tex2pdf service.
    Remote(RemoteExecutor),
}

impl TexCompiler {
    /// Cheap: nothing is started or asked.
    pub fn new(executor: Executor) -> Self {
        Self {
            executor: Arc::new(executor),
            runs: TaskTracker::new(),
        }
    }

    /// Compiles `job` as one session of `guard`; the payload is its `jobId`. Failures are results as well, a panic too.
    ///
    /// The guard is asked when the sources are known to be good, before anything is unpacked or uploaded, and then at
    /// each poll. `progress` is called from another task.
    ///
    /// # Cancellation
    /// The compilation is ended in the background, with all that a finished one cleans up; then the guard is told. See
    /// [`idle`](Self::idle).
    pub async fn compile(
        &self,
        job: TexJob,
        guard: Arc<dyn SessionGuard>,
        progress: impl Fn(Progress) + Send + Sync + 'static,
    ) -> TexResult {
        let started = Instant::now();
        let gone = CancellationToken::new();
        let _gone = gone.clone().drop_guard();
        let executor = Arc::clone(&self.executor);
        // In a task of its own, so that its end is the same whoever is still there to see it.
        let run = self.runs.spawn(async move {
            let mut log = String::new();
            let pdf = session(&executor, &job, &*guard, &progress, &gone, &mut log).await;
            (pdf, log)
        });
        let (pdf, log) = run.await.unwrap_or_else(|error| {
            if error.is_panic() {
                tracing::error!("a compilation panicked outside its session");
            }
            (Err(TexError::Internal), String::new())
        });
        let (pdf, error) = match pdf {
            Ok(pdf) => (Some(pdf), None),
            Err(error) => (None, Some(error)),
        };
        let elapsed = started.elapsed();
        TexResult {
            pdf,
            log,
            error,
            elapsed,
        }
    }

    /// Waits until nothing runs any more, dropped compilations included.
    pub async fn idle(&self) {
        self.runs.close();
        self.runs.wait().await;
        self.runs.reopen();
    }
}

type Pdf = Result<Vec<u8>, TexError>;

async fn session(
    executor: &Executor,
    job: &TexJob,
    guard: &dyn SessionGuard,
    progress: &(dyn Fn(Progress) + Send + Sync),
    gone: &CancellationToken,
    log: &mut String,
) -> Pdf {
    let mut run = Run::prepare(executor, job)?;
    progress(Progress::Waiting);
    select! {
        biased;
        // Nobody sees that.
        () = gone.cancelled() => return Err(TexError::Internal),
        opening = guard.opening() => opening?,
    }
    // From here on every way leads to `closed`.
    let work = async {
        select! {
            biased;
            () = gone.cancelled() => Err(TexError::Internal),
            lost = guard.revoked() => Err(lost.into()),
            pdf = run.work(guard, progress) => pdf,
        }
    };
    let pdf = AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| {
            tracing::error!("a compilation panicked");
            Err(TexError::Internal)
        });
    let end = run.end(log).await;
    let is_remote = matches!(executor, Executor::Remote(_));
    let runs_on = is_remote && matches!(end, SessionEnd::Unknown(_));
    guard.closed(end).await;
    pdf.map_err(|error| error.with_remote(runs_on))
}

/// One compilation at its executor. What it holds outside this process is in here, for `end` to find.
enum Run {
    Local(Box<LocalRun>),
    Remote(Box<RemoteRun>),
}

impl Run {
    /// Refuses what needs no permission to be refused.
    fn prepare(executor: &Executor, job: &TexJob) -> Result<Self, TexError> {
        if !job.sources.has(job.main.as_str()) {
            let (main, files) = (job.main.clone(), job.sources.files().count());
            return Err(SourcesError::NoMain { main, files }.into());
        }
        Ok(match executor {
            Executor::Local(executor) => Self::Local(Box::new(LocalRun::prepare(executor, job)?)),
            Executor::Remote(executor) => {
                Self::Remote(Box::new(RemoteRun::prepare(executor, job)?))
            }
        })
    }

    async fn work(
        &mut self,
        guard: &dyn SessionGuard,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Pdf {
        match self {
            Self::Local(run) => run.work(guard, progress).await,
            Self::Remote(run) => run.work(guard, progress).await,
        }
    }

    /// Ends what still runs, and leaves nothing.
    async fn end(self, log: &mut String) -> SessionEnd {
        match self {
            Self::Local(run) => run.end(log).await,
            Self::Remote(run) => run.end(),
        }
    }
}
