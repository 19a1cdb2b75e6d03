//! The process that knows which pods live and which handler cleans up what, and brings the two together.

mod drain;
mod signals;
mod start;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lease_shared::definition::ConfigDocuments;
use lease_shared::{LeaseHandler, LeaseService, LeaseType, PodId, StoreError};
use metrics_exporter_prometheus::PrometheusHandle;
use mongodb::Database;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::access::Access;
use crate::cluster::{PodError, PodRegistry, PodSettings};
use crate::dispatch::Runner;
use crate::handlers::{HandlerRegistry, InvalidHandler};
use crate::http::{Places, Served};
use crate::insights::turns::Turns;
use crate::mcp::{McpSettings, Pool};
use crate::tex::{Tex, TexOptions};

/// A pod: one process that holds leases for others, cleans up behind revoked ones, and sweeps.
///
/// [`Brain::builder`] wires it, [`BrainBuilder::start`] makes it a pod, [`Brain::run`] runs it until it is told to stop.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use lease_brain::{Brain, PodSettings, Shutdown};
/// # use futures_util::future::BoxFuture;
/// # use lease_shared::{HandlerError, LeaseHandler, Revocation, SlotReturn};
/// # #[derive(Debug)]
/// # struct Bench;
/// # impl LeaseHandler for Bench {
/// #     fn slot_return(&self) -> SlotReturn { SlotReturn::AfterCleanup }
/// #     fn on_revoked<'a>(&'a self, _: &'a Revocation) -> BoxFuture<'a, Result<(), HandlerError>> {
/// #         Box::pin(async { Ok(()) })
/// #     }
/// # }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let database = lease_shared::connect("mongodb://127.0.0.1:27017").await?.database("lease");
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:7311").await?;
/// let pod = PodSettings::new("bench-1", format!("http://{}", listener.local_addr()?));
/// let brain = Brain::builder(database, pod, listener)
///     .handler("bench", Arc::new(Bench))?
///     .start()
///     .await?;
/// let leases = brain.leases().clone(); // for the consumers in this process
/// let stopping = brain.stopping(); // when they are to give back what they hold
/// # let _ = (leases, stopping);
/// brain.run(Shutdown::on_signals()?).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Brain {
    leases: LeaseService,
    registry: Arc<PodRegistry>,
    runner: Runner,
    mcp: Option<Pool>,
    tex: Option<Tex>,
    stopping: CancellationToken,
    site: Arc<Site>,
    tasks: Tasks,
    working: Working,
    drain: Duration,
    /// Ends the handlers and jobs that run, and all that waits for `stopping`. Last, after those who wait for handlers.
    _gone: DropGuard,
}

/// What ends by itself when the brain stops.
#[derive(Debug)]
struct Working {
    serving: AbortOnDropHandle<()>,
    cleaning: AbortOnDropHandle<()>,
    sweeping: AbortOnDropHandle<()>,
}

impl Working {
    async fn ended(&mut self) -> BrainError {
        let (task, problem) = tokio::select! {
            ended = &mut self.serving => ("the HTTP server", ended.err().map(|error| error.to_string())),
            ended = &mut self.cleaning => ("the dispatcher", ended.err().map(|error| error.to_string())),
            ended = &mut self.sweeping => ("the sweeper", ended.err().map(|error| error.to_string())),
        };
        let problem = problem.unwrap_or_else(|| "without an error".to_owned());
        BrainError::Ended { task, problem }
    }
}

/// How to stop a [`Brain`]: `drain` lets it finish what it can, `abort` does not.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// No new leases; what runs is finished, within the drain's time.
    pub drain: CancellationToken,
    /// Now.
    pub abort: CancellationToken,
}

/// Why a brain did not start, or stopped without being told to.
#[derive(Debug, thiserror::Error)]
pub enum BrainError {
    /// The store refuses what a pod needs: a right is missing, or an index cannot be made.
    #[error("the lease store cannot be used")]
    Store(#[source] StoreError),
    /// It could not become a pod.
    #[error("this process cannot be a pod")]
    Pod(#[source] PodError),
    /// A task that should run for ever has ended.
    #[error("{task} ended: {problem}")]
    Ended {
        /// Which.
        task: &'static str,
        /// How.
        problem: String,
    },
    /// A handler of this process's own has the type of another.
    #[error("a lease type is taken")]
    Handler(#[source] InvalidHandler),
    /// The calls of other pods cannot be made.
    #[error("could not set up calls to other pods")]
    Client(#[source] reqwest::Error),
}

/// What the routes work on, as soon as there is something: they are served before the store has been read.
#[derive(Debug, Default)]
pub(crate) struct Site {
    /// Who verifies the tokens of tenants: known before the store is.
    pub(crate) access: Option<Access>,
    pub(crate) served: OnceLock<Served>,
    /// The pages that are kept up to date.
    pub(crate) pages: Places,
    /// What tenants may ask of the store at once.
    pub(crate) turns: Turns,
    /// Ends the server, when all else has ended.
    pub(crate) closed: CancellationToken,
}

/// The tasks of a brain, by name.
#[derive(Debug, Default)]
struct Tasks(JoinSet<(&'static str, Result<(), String>)>);

impl Tasks {
    fn spawn(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        self.0.spawn(async move { (name, work.await) });
    }

    /// Waits for the first that ends.
    async fn ended(&mut self) -> BrainError {
        match self.0.join_next().await {
            Some(Ok((task, ended))) => BrainError::Ended {
                task,
                problem: ended.err().unwrap_or_else(|| "without an error".to_owned()),
            },
            Some(Err(error)) => BrainError::Ended {
                task: "a task",
                problem: error.to_string(),
            },
            None => std::future::pending().await,
        }
    }
}

/// Wires a [`Brain`].
#[derive(Debug)]
pub struct BrainBuilder {
    database: Database,
    pod: PodSettings,
    listener: TcpListener,
    registry: HandlerRegistry,
    mcp: Option<McpSettings>,
    tex: Option<TexOptions>,
    documents: Option<ConfigDocuments>,
    secret: Option<SecretString>,
    access: Option<Access>,
    metrics: Option<PrometheusHandle>,
    reap_interval: Duration,
    reconcile_interval: Duration,
    drain: Duration,
}

impl Brain {
    /// A brain on one database, which all processes that share resources must use; as this pod; serving on this socket.
    pub fn builder(database: Database, pod: PodSettings, listener: TcpListener) -> BrainBuilder {
        BrainBuilder {
            database,
            pod,
            listener,
            registry: HandlerRegistry::default(),
            mcp: None,
            tex: None,
            documents: None,
            secret: None,
            access: None,
            metrics: None,
            reap_interval: BrainBuilder::REAP_INTERVAL,
            reconcile_interval: BrainBuilder::RECONCILE_INTERVAL,
            drain: BrainBuilder::DRAIN,
        }
    }

    /// Where the consumers in this process acquire, in the name of [`Brain::pod`].
    pub fn leases(&self) -> &LeaseService {
        &self.leases
    }

    /// This pod, for the requests of its consumers.
    pub fn pod(&self) -> &PodId {
        self.registry.pod()
    }

    /// Cancelled when the drain begins: the consumers in this process then end what they do and release what they hold in
    /// the name of [`Brain::pod`]. What they keep, the drain waits for until its whole time is over, and it comes back only
    /// when this pod is found dead.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Runs until `shutdown` says so, or something that should not end does.
    ///
    /// On a drain: nothing is acquired any more, the pod is STOPPING, clean-ups that run are finished, the consumers of this
    /// process give their leases back, and the pod is STOPPED: within the drain's time, and two seconds more for the last
    /// word if the store is slow. What is left then, other pods go on with. While leases are still held here it is not called STOPPED, for what runs under them ends with the
    /// process; they come back when the pod is found dead.
    ///
    /// # Errors
    /// [`BrainError::Ended`] names the task that ended and says why: the heartbeat, for example, if another process took
    /// this pod's place. The process should end, and be started again.
    pub async fn run(mut self, shutdown: Shutdown) -> Result<(), BrainError> {
        tokio::select! {
            biased;
            () = shutdown.abort.cancelled() => return Ok(()),
            () = shutdown.drain.cancelled() => {}
            error = self.tasks.ended() => return Err(error),
            error = self.working.ended() => return Err(error),
        }
        tokio::select! {
            biased;
            () = shutdown.abort.cancelled() => tracing::warn!("aborted; what was under way is left to other pods"),
            () = self.drain() => tracing::info!("drained"),
        }
        Ok(())
    }
}

/// A brain that has ended, however it did, acquires nothing more; its tasks and its handlers end with it, wherever they are.
impl Drop for Brain {
    fn drop(&mut self) {
        self.leases.refuse_new();
    }
}

impl BrainBuilder {
    /// More often than this, a round does nothing but keep the store busy.
    const SHORTEST: Duration = Duration::from_millis(100);
    /// How long a pause between two sweeps is on average, unless told otherwise.
    pub const REAP_INTERVAL: Duration = Duration::from_secs(30);
    /// How long between two reconciles, unless told otherwise.
    pub const RECONCILE_INTERVAL: Duration = Duration::from_secs(300);
    /// How long a drain may take, unless told otherwise.
    pub const DRAIN: Duration = Duration::from_secs(25);

    /// Has the revoked leases of one more type cleaned up by `handler`.
    ///
    /// # Errors
    /// The name is no lease type, or the type has a handler already.
    pub fn handler(
        mut self,
        lease_type: &str,
        handler: Arc<dyn LeaseHandler>,
    ) -> Result<Self, InvalidHandler> {
        self.registry
            .register(LeaseType::new(lease_type)?, handler)?;
        Ok(self)
    }

    /// Offers the tools at MCP servers that documents define, and cleans up behind their sessions (lease type `mcp`).
    #[must_use]
    pub fn mcp(mut self, settings: McpSettings) -> Self {
        self.mcp = Some(settings);
        self
    }

    /// Compiles TeX documents, and ends the compilations of revoked leases (lease type `tex`).
    #[must_use]
    pub fn tex(mut self, options: TexOptions) -> Self {
        self.tex = Some(options);
        self
    }

    /// Where configuration documents live; the same database unless said otherwise.
    #[must_use]
    pub fn documents(mut self, documents: ConfigDocuments) -> Self {
        self.documents = Some(documents);
        self
    }

    /// The secret of internal calls. Without one all of them are refused, also those between pods.
    #[must_use]
    pub fn internal_secret(mut self, secret: Option<SecretString>) -> Self {
        self.secret = secret;
        self
    }

    /// Verifies the tokens of tenants' administrators. Without it, `/insights` and `/api/insights` show nothing.
    #[must_use]
    pub fn access(mut self, access: Option<Access>) -> Self {
        self.access = access;
        self
    }

    /// What `/metrics` shows.
    #[must_use]
    pub fn metrics(mut self, metrics: PrometheusHandle) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// How long a pause between two sweeps is on average; 30 s unless said otherwise, and 100 ms at least. Too small, and
    /// every pod keeps the store busy with looking.
    #[must_use]
    pub fn reap_interval(mut self, interval: Duration) -> Self {
        self.reap_interval = interval.max(Self::SHORTEST);
        self
    }

    /// How long between two reconciles, which look at every counter; 5 min unless said otherwise, and 100 ms at least.
    #[must_use]
    pub fn reconcile_interval(mut self, interval: Duration) -> Self {
        self.reconcile_interval = interval.max(Self::SHORTEST);
        self
    }

    /// How long a drain may take; 25 s unless said otherwise. Too small, and clean-ups are cut off, to be begun anew by
    /// another pod a minute later.
    #[must_use]
    pub fn drain(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(std::future::pending()))
    }

    fn working() -> Working {
        Working {
            serving: never(),
            cleaning: never(),
            sweeping: never(),
        }
    }

    async fn told(ended: impl Future<Output = BrainError>) -> String {
        let within = Duration::from_secs(10);
        let ended = tokio::time::timeout(within, ended).await;
        ended.expect("its end is noticed").to_string()
    }

    #[tokio::test]
    async fn end_of_any_part_that_should_not_end_is_told_by_its_name() {
        type Part = fn(&mut Working) -> &mut AbortOnDropHandle<()>;
        let parts: [(&str, Part); 3] = [
            ("the HTTP server", |working| &mut working.serving),
            ("the dispatcher", |working| &mut working.cleaning),
            ("the sweeper", |working| &mut working.sweeping),
        ];
        for (name, part) in parts {
            let mut working = working();
            *part(&mut working) = AbortOnDropHandle::new(tokio::spawn(async {}));
            let said = told(working.ended()).await;
            assert_eq!(said, format!("{name} ended: without an error"));
            let panics = tokio::spawn(async { panic!("over one document") });
            *part(&mut working) = AbortOnDropHandle::new(panics);
            let said = told(working.ended()).await;
            assert!(said.starts_with(&format!("{name} ended: ")), "{said}");
            assert!(said.contains("over one document"), "{said}");
        }
    }

    #[tokio::test]
    async fn end_of_any_task_is_told_by_its_name_and_its_problem() {
        let mut tasks = Tasks::default();
        tasks.spawn("the first", std::future::pending());
        tasks.spawn("the second", async { Err("its name was taken".to_owned()) });
        let said = told(tasks.ended()).await;
        assert_eq!(said, "the second ended: its name was taken");
        tasks.spawn("the third", async { panic!("over one document") });
        let said = told(tasks.ended()).await;
        assert!(said.contains("over one document"), "{said}");
    }
}
