//! The lease service: where consumers acquire.

mod acquisition;
pub(crate) mod attempt;
mod here;
pub(crate) mod release;
mod revoke;
pub(crate) mod wait;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mongodb::Database;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::definition::{
    ConfigDocuments, DefinitionResolver, DefinitionWatch, LeaseDefinition, MongoDocuments,
    ResolveError,
};
use crate::error::{AcquireError, InvalidRequest, Unavailable};
use crate::lease::Lease;
use crate::level::WaitMs;
use crate::metrics;
use crate::name::{InvalidName, LeaseType};
use crate::reaper::{Reaper, SweepReport};
use crate::reconciler::Reconciler;
use crate::request::{LeaseRef, LeaseRequest};
use crate::revocation::{KnownTypes, RevocationListener, SlotReturn};
use crate::store::documents::check_payload;
use crate::store::{LeaseStore, StoreError, deadline};
use crate::view::LeaseViews;
use acquisition::Acquisition;
use attempt::Plan;
pub(crate) use here::Here;
pub use revoke::{Decision, Holding};
use wait::Lines;

/// How much longer than its wait an acquire may take to answer.
const GRACE: Duration = Duration::from_millis(4900);

/// Acquires leases, and reaps what it finds expired on the way. Cheap to clone; clones are one service.
///
/// ```no_run
/// use lease_shared::{LeaseRef, LeaseRequest, LeaseService, LeaseType, Tenancy, connect};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let database = connect("mongodb://127.0.0.1:27017").await?.database("lease");
/// let leases = LeaseService::builder(database).start().await?;
///
/// let request = LeaseRequest::builder()
///     .lease_type(LeaseType::command())
///     .lease(LeaseRef::named("tex")?)
///     .tenancy(Tenancy::new("acme", "thesis", "ada")?)
///     .holder_ref("process-17")
///     .build();
/// let lease = leases.acquire(request).await?;
/// lease.check().await?; // before every use of the resource
/// lease.release().await?;
/// leases.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LeaseService {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: LeaseStore,
    resolver: DefinitionResolver,
    /// Ends with the service. Should it die, definitions change by age alone.
    _watch: Option<DefinitionWatch>,
    listener: Arc<dyn RevocationListener>,
    reaper: Reaper,
    lines: Lines,
    /// Set when nothing is to be acquired any more.
    closed_to_new: CancellationToken,
    /// The leases of pods that this process holds.
    pub(crate) here: Here,
    /// What goes on after its caller has its answer, or has gone: undoing and unbooking.
    background: TaskTracker,
    runtime: Handle,
}

#[bon::bon]
impl LeaseService {
    /// A service on one database, which all processes that share resources must use.
    ///
    /// Creates the indexes it needs. The database's own read preference and write concern do not matter: reads go to the
    /// primary and writes ask for a majority, whatever the URI says.
    ///
    /// # Errors
    /// The store cannot be reached, or refuses the indexes.
    #[builder(start_fn = builder, finish_fn = start)]
    pub async fn new(
        #[builder(start_fn)] database: Database,
        /// Where definition documents live; the same database unless said otherwise.
        documents: Option<ConfigDocuments>,
        /// Which lease types there are besides `command`, and who is told of revocations.
        #[builder(default = Arc::new(KnownTypes::new()))]
        listener: Arc<dyn RevocationListener>,
        /// Follow changes of the definition documents, so that a cached definition is dropped at once and not only
        /// when it is 60 s old. Costs one change stream or one directory watch.
        #[builder(default = true)]
        follow_changes: bool,
        /// Create the indexes that queries need, if they are not there. A process that only checks and releases by
        /// token can do without, and without the right to.
        #[builder(default = true)]
        create_indexes: bool,
    ) -> Result<Self, StoreError> {
        let documents =
            documents.unwrap_or_else(|| ConfigDocuments::Mongo(MongoDocuments::new(&database)));
        let store = LeaseStore::new(database);
        if create_indexes {
            store.create_indexes().await?;
        }
        let resolver = DefinitionResolver::new(documents);
        let lines = Lines::default();
        let inner = Inner {
            reaper: Reaper::new(store.clone(), Arc::clone(&listener), lines.clone()),
            store,
            _watch: follow_changes.then(|| resolver.watch()),
            resolver,
            listener,
            lines,
            closed_to_new: CancellationToken::new(),
            here: Here::default(),
            background: TaskTracker::new(),
            runtime: Handle::current(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }
}

impl LeaseService {
    /// Acquires a lease, waiting as long as the definition or the request says.
    ///
    /// Answers by the end of the wait plus five seconds, whatever the store does. A definition that caps nothing, or a
    /// request without one, gives a NOOP lease without any traffic.
    ///
    /// # Errors
    /// [`AcquireError`] says what to do next. After an error nothing is held.
    ///
    /// # Cancellation
    /// The future may be dropped at any point. An attempt under way finishes in the background and is undone there.
    pub async fn acquire(&self, request: LeaseRequest) -> Result<Lease, AcquireError> {
        let started = Instant::now();
        let slot_return = self.check(&request)?;
        let mut label = None;
        let result = tokio::select! {
            biased;
            // Dropping the acquire gives everything back.
            () = self.inner.closed_to_new.cancelled() => Err(AcquireError::Unavailable(Unavailable::Ending)),
            result = self.acquire_labelled(&request, started, slot_return, &mut label) => result,
        };
        let outcome = match &result {
            Ok(lease) if lease.is_noop() => "noop",
            Ok(_) => "success",
            Err(AcquireError::Busy(_)) => "busy",
            Err(_) => "unavailable",
        };
        if let Some(label) = label {
            metrics::acquired(label, outcome, started.elapsed());
        }
        result
    }

    /// Acquires, and leaves the metrics' label of the resource behind as soon as it is known.
    async fn acquire_labelled(
        &self,
        request: &LeaseRequest,
        started: Instant,
        slot_return: SlotReturn,
        label: &mut Option<String>,
    ) -> Result<Lease, AcquireError> {
        let definition = match self.definition(request).await {
            Ok(Some(definition)) => definition,
            Ok(None) => return Ok(Lease::noop(None)),
            Err(error) => {
                // What is not defined is no resource.
                if let AcquireError::Unavailable(_) = &error {
                    *label = Some(metrics::UNKNOWN.to_owned());
                }
                return Err(error);
            }
        };
        *label = Some(definition.metric_label.clone());
        let wait = request
            .wait
            .unwrap_or_else(|| definition.wait.as_duration());
        let plan = Plan::new(request, definition, slot_return);
        let acquisition = Acquisition {
            leases: self,
            request,
            slot_return,
            started,
            wait_ends: started + wait,
            answer_by: started + wait + GRACE,
        };
        acquisition.run(plan).await
    }

    /// What can be refused without any traffic.
    fn check(&self, request: &LeaseRequest) -> Result<SlotReturn, AcquireError> {
        let slot_return = if request.lease_type == LeaseType::command() {
            // The command may run on until its wrapper has ended it, so its slot stays booked until then.
            SlotReturn::AfterCleanup
        } else {
            let known = self.inner.listener.slot_return(&request.lease_type);
            known.ok_or_else(|| AcquireError::UnknownType(request.lease_type.clone()))?
        };
        if let Some(wait) = request
            .wait
            .filter(|wait| *wait > Duration::from_millis(WaitMs::MAX.into()))
        {
            return Err(InvalidRequest::WaitTooLong(wait).into());
        }
        if request.pod_bound && request.pod.is_none() {
            return Err(InvalidRequest::PodMissing.into());
        }
        check_payload(&request.payload).map_err(InvalidRequest::Payload)?;
        if request.holder_ref.len() > 256 || request.holder_ref.chars().any(char::is_control) {
            let rule = "must be at most 256 bytes without control characters";
            let name = InvalidName::new("holder ref", &request.holder_ref, rule);
            return Err(InvalidRequest::Name(name).into());
        }
        Ok(slot_return)
    }

    /// The definition as it is now; nothing if the request is for no lease.
    async fn definition(
        &self,
        request: &LeaseRequest,
    ) -> Result<Option<Arc<LeaseDefinition>>, AcquireError> {
        let name = match &request.lease {
            LeaseRef::None => return Ok(None),
            LeaseRef::Inline(inline) => {
                return Ok(Some(Arc::new(inline.resolve(&request.tenancy))));
            }
            LeaseRef::Named(name) => name,
        };
        match self.inner.resolver.resolve(&request.tenancy, name).await {
            Ok(definition) => Ok(Some(definition)),
            Err(ResolveError::Undefined {
                name,
                tenant,
                project,
            }) => Err(AcquireError::Undefined {
                name,
                tenant,
                project,
            }),
            Err(ResolveError::Broken(error)) => Err(AcquireError::Unavailable(error.into())),
            Err(ResolveError::Unavailable(error)) => Err(AcquireError::Unavailable(error.into())),
        }
    }

    /// Acquires, works, releases: also when the work fails. A release that fails is left to the background and the
    /// time to live.
    ///
    /// # Cancellation
    /// Dropping the future drops the work, and releases the lease in the background.
    pub async fn with_lease<T>(
        &self,
        request: LeaseRequest,
        work: impl AsyncFnOnce(&Lease) -> T,
    ) -> Result<T, AcquireError> {
        let lease = self.acquire(request).await?;
        let result = work(&lease).await;
        if let Err(error) = lease.release().await {
            tracing::warn!(%error, "could not release a lease whose work is done");
        }
        Ok(result)
    }

    /// One round over everything that has expired: idle leases are revoked, acquires that never finished removed,
    /// revoked commands finished. Any number of processes may sweep at once.
    pub async fn sweep(&self) -> SweepReport {
        self.inner.reaper.sweep().await
    }

    /// Frees what no holder books.
    pub fn reconciler(&self) -> Reconciler {
        Reconciler::of(self.inner.store.clone(), self.inner.lines.clone())
    }

    /// Reads holders and counters for people.
    pub fn views(&self) -> LeaseViews {
        LeaseViews::of(self.inner.store.clone())
    }

    /// The definitions, and the documents behind them.
    pub fn definitions(&self) -> &DefinitionResolver {
        &self.inner.resolver
    }

    /// From now on nothing is acquired in this process; those that wait are told at once that it is ending. What is held
    /// can still be checked and released.
    pub fn refuse_new(&self) {
        self.inner.closed_to_new.cancel();
    }

    /// Finds out whether this process may do what leases need, by writes that match nothing: so that a right that is
    /// missing shows at the start of a process and not at its first lease.
    ///
    /// # Errors
    /// The store cannot be asked, or refuses something; see [`StoreError::is_transient`].
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.inner.store.probe(deadline()).await
    }

    /// Waits until everything that goes on in the background has ended: undoing of acquires that nobody waits for any
    /// more, and unbooking after releases. Gives up after ten seconds, for the next sweep finds what is left.
    pub async fn close(&self) {
        self.inner.background.close();
        let ended =
            tokio::time::timeout(Duration::from_secs(10), self.inner.background.wait()).await;
        if ended.is_err() {
            tracing::warn!("some slots could not be given back in time; the next sweep frees them");
        }
        self.inner.background.reopen();
    }

    /// The failpoints of this service.
    #[cfg(feature = "testing")]
    pub fn failpoints(&self) -> &crate::failpoint::Failpoints {
        &self.inner.store.failpoints
    }
}

impl Inner {
    /// Runs to its end even if nobody waits for it.
    fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn_on(work, &self.runtime);
    }
}
