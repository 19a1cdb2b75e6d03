//! Compiling at a tex2pdf service.

mod client;
mod reply;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lease_toolpack::{SessionEnd, SessionGuard, SessionPayload};
use reqwest::Url;
use secrecy::SecretString;
use tokio::time::{Instant, sleep};

use self::client::Client;
use self::reply::Status;
use crate::error::{BoxError, RemoteFailure, TexError};
use crate::job::{Engine, Progress, TexJob};
use crate::sources::Sources;

/// Gives the API key; asked anew for every request, so that it is read at the moment of use and kept nowhere. Its error must
/// hold no secret.
pub type ApiKeySource = Arc<
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<SecretString, BoxError>> + Send>> + Send + Sync,
>;

/// A tex2pdf service (rbehzadan/tex2pdf): pdflatex, with one job per upload, which it lets nobody cancel.
#[derive(Clone)]
pub struct RemoteExecutor {
    /// Its address, without `/tex2pdf`: of http or https, without a user, a query and a fragment. Another is refused before
    /// the guard is asked.
    pub url: Url,
    /// Its key, if it wants one.
    pub api_key: Option<ApiKeySource>,
    /// How long a job may take, from its submission.
    pub timeout: Duration,
    /// The time between two looks at a job.
    pub poll_interval: Duration,
    /// How long one request may take. With `poll_interval` it must be well below the lease's time to live.
    pub request_timeout: Duration,
    /// A larger PDF is not taken.
    pub pdf_limit: u64,
}

impl RemoteExecutor {
    /// The service at `url`, without a key and with the usual limits.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            api_key: None,
            timeout: Duration::from_secs(300),
            poll_interval: Duration::from_secs(3),
            request_timeout: Duration::from_secs(30),
            pdf_limit: 100 << 20,
        }
    }
}

/// Without the address: one that is still to be refused may hold a password.
impl fmt::Debug for RemoteExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteExecutor")
            .field("timeout", &self.timeout)
            .field("poll_interval", &self.poll_interval)
            .field("request_timeout", &self.request_timeout)
            .field("pdf_limit", &self.pdf_limit)
            .finish_non_exhaustive()
    }
}

pub(crate) struct RemoteRun {
    client: Client,
    timeout: Duration,
    poll_interval: Duration,
    sources: Sources,
    main: String,
    /// The service may have the job, and not be done with it.
    runs_on: bool,
}

impl RemoteRun {
    pub(crate) fn prepare(executor: &RemoteExecutor, job: &TexJob) -> Result<Self, TexError> {
        if job.engine != Engine::Pdflatex {
            return Err(TexError::EngineRefused {
                engine: job.engine,
                cure: "the remote service has pdflatex only; choose that, or compile locally",
            });
        }
        Ok(Self {
            client: Client::new(executor)?,
            timeout: executor.timeout,
            poll_interval: executor.poll_interval,
            sources: job.sources.below(job.main.folder()),
            main: job.main.name().to_owned(),
            runs_on: false,
        })
    }

    pub(crate) async fn work(
        &mut self,
        guard: &dyn SessionGuard,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Vec<u8>, TexError> {
        let sources = self.sources.clone();
        let packed = tokio::task::spawn_blocking(move || sources.to_zip()).await;
        let zip = packed.map_err(|error| TexError::local("pack", error))??;

        let started = Instant::now();
        self.runs_on = true;
        let submitted = self.client.submit(zip, &self.main).await;
        let job_id = match submitted {
            Ok(job_id) => job_id,
            Err(failure) => {
                // An answer, if it is one of the service's own, says that there is no job.
                self.runs_on = may_have_begun(&failure);
                return Err(failure.into());
            }
        };
        let payload = SessionPayload::from_iter([("jobId".to_owned(), job_id.clone().into())]);
        guard.opened(payload).await?;
        progress(Progress::Started {
            job_id: job_id.clone(),
        });

        loop {
            let left = self.timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                let (limit, remote_runs_on) = (self.timeout, true);
                return Err(TexError::TimedOut {
                    limit,
                    remote_runs_on,
                });
            }
            sleep(self.poll_interval.min(left)).await;
            guard.used().await?;
            match self.client.status(&job_id).await {
                Ok(Status::Done) => break,
                Ok(Status::Running(word)) => progress(Progress::Running(word)),
                Ok(Status::Failed(text)) => {
                    self.runs_on = false;
                    return Err(RemoteFailure::Failed { text }.into());
                }
                Err(failure) => {
                    self.runs_on = !matches!(failure, RemoteFailure::Forgotten);
                    return Err(failure.into());
                }
            }
        }
        self.runs_on = false;
        progress(Progress::Downloading);
        Ok(self.client.download(&job_id).await?)
    }

    pub(crate) fn end(self) -> SessionEnd {
        if self.runs_on {
            SessionEnd::Unknown("the remote job runs on until it ends by itself".to_owned())
        } else {
            SessionEnd::Gone
        }
    }
}

/// Whether the service may have begun with a job whose submission failed like that.
fn may_have_begun(failure: &RemoteFailure) -> bool {
    match failure {
        RemoteFailure::Silent { .. }
        | RemoteFailure::Connection { .. }
        | RemoteFailure::Strange { .. } => true,
        RemoteFailure::Refused { status, .. } => *status >= 500,
        _ => false,
    }
}
