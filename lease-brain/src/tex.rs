//! TeX documents, compiled for the users of tenants: each compilation is under a lease.

mod handler;
mod settings;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use addon_tex::{
    ApiKeySource, Executor, LocalExecutor, Progress, RemoteExecutor, TexCompiler, TexError, TexJob,
    TexResult,
};
use lease_shared::definition::ConfigDocuments;
use lease_shared::{
    AcquireError, Busy, CheckError, InvalidName, LeaseRequest, LeaseService, LeaseType, PodId,
    Tenancy,
};
use lease_toolpack::SessionUnavailable;
use mongodb::bson::doc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::guard::{LeaseSessionGuard, Tracker};
use crate::handlers::{HandlerRegistry, InvalidHandler};
use crate::secrets::Secrets;
use handler::TexHandler;
pub(crate) use settings::SettingsError;
pub use settings::check_settings;
use settings::{ApiKey, ExecutorSettings, TexSettings};

/// What a brain needs to compile documents.
#[derive(Debug, Clone)]
pub struct TexOptions {
    /// Where the secrets are that settings name.
    pub secrets: Secrets,
    /// Where each compilation gets a folder; the system's place for such, unless given.
    pub scratch: Option<PathBuf>,
    /// Compile here also where the kernel cannot confine latexmk. Documents can then read what this process can.
    pub allow_unconfined: bool,
}

/// Compilations, before there is a pod to hold leases.
#[derive(Debug)]
pub(crate) struct TexParts {
    options: TexOptions,
    documents: ConfigDocuments,
    tracker: Tracker,
}

/// Compiles documents in this pod.
#[derive(Debug, Clone)]
pub(crate) struct Tex {
    options: TexOptions,
    documents: ConfigDocuments,
    lease_type: LeaseType,
    leases: LeaseService,
    pod: PodId,
    tracker: Tracker,
    ending: CancellationToken,
    runs: TaskTracker,
    places: Arc<Semaphore>,
}

/// How many documents a pod has in memory at most, those that wait for a lease included.
pub(crate) const PLACES: usize = 16;

/// Sees to it that what a compilation leaves to be cleaned up is waited for, also if nobody waits for its result.
struct Settling {
    compiler: TexCompiler,
    runs: TaskTracker,
    _running: TaskTrackerToken,
}

impl Drop for Settling {
    fn drop(&mut self) {
        let compiler = self.compiler.clone();
        self.runs.spawn(async move { compiler.idle().await });
    }
}

/// How far a compilation is.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// All slots are taken, by whom the diagnosis says.
    Busy(String),
    /// What the compiler says.
    Progress(Progress),
}

impl TexParts {
    pub(crate) fn new(options: TexOptions, documents: ConfigDocuments) -> Self {
        Self {
            options,
            documents,
            tracker: Tracker::default(),
        }
    }

    pub(crate) fn register(&self, handlers: &mut HandlerRegistry) -> Result<(), InvalidHandler> {
        let tracker = self.tracker.clone();
        handlers.register(lease_type()?, Arc::new(TexHandler { tracker }))
    }

    pub(crate) fn start(self, leases: LeaseService, pod: PodId) -> Result<Tex, InvalidName> {
        Ok(Tex {
            options: self.options,
            documents: self.documents,
            lease_type: lease_type()?,
            leases,
            pod,
            tracker: self.tracker,
            ending: CancellationToken::new(),
            runs: TaskTracker::new(),
            places: Arc::new(Semaphore::new(PLACES)),
        })
    }
}

/// The type of the leases of compilations.
fn lease_type() -> Result<LeaseType, InvalidName> {
    LeaseType::new("tex")
}

impl Tex {
    /// Compiles a document for someone, as the settings say. What goes wrong with it is a result.
    ///
    /// # Errors
    /// It is not known what the settings say.
    ///
    /// # Cancellation
    /// The compilation is ended in the background, and its lease given back.
    pub(crate) async fn compile(
        &self,
        tenancy: &Tenancy,
        job: TexJob,
        tell: impl Fn(Told) + Send + Sync + 'static,
    ) -> Result<TexResult, SettingsError> {
        let settings = TexSettings::find(&self.documents, tenancy).await?;
        let tell = Arc::new(tell);
        let busy = Arc::clone(&tell);
        let (executor, payload) = match &settings.executor {
            ExecutorSettings::Local => ("local", doc! { "executor": "local" }),
            ExecutorSettings::Rbehzadan(_) => ("rbehzadan", doc! { "executor": "rbehzadan" }),
        };
        let request = LeaseRequest::builder()
            .lease_type(self.lease_type.clone())
            .lease(settings.lease.clone())
            .tenancy(tenancy.clone())
            .holder_ref(format!("tex {}", job.main.as_str()))
            .pod(self.pod.clone())
            .pod_bound(true)
            .payload(payload.clone())
            .on_busy(Arc::new(move |diagnosis: &Busy| {
                busy(Told::Busy(diagnosis.to_string()));
            }))
            .build();
        let leases = self.leases.clone();
        let guard = LeaseSessionGuard::new(leases, request, payload, self.tracker.clone());
        let guard = Arc::new(guard);
        let compiler = TexCompiler::new(self.executor(settings));
        let _settling = Settling {
            compiler: compiler.clone(),
            runs: self.runs.clone(),
            _running: self.runs.token(),
        };
        let compiling = compiler.compile(
            job,
            Arc::<LeaseSessionGuard>::clone(&guard),
            move |progress| {
                tell(Told::Progress(progress));
            },
        );
        // However short the time to live, and however long a poll takes, it is used all along.
        let in_use = async {
            loop {
                guard.check_in_use().await;
            }
        };
        let result = tokio::select! {
            result = compiling => result,
            never = in_use => match never {},
            () = self.ending.cancelled() => TexResult {
                pdf: None,
                log: String::new(),
                error: Some(TexError::Unavailable(SessionUnavailable::new(
                    "this pod is shutting down: try again, another one will take it",
                ))),
                elapsed: Duration::ZERO,
            },
        };
        if let Some(error) = &result.error {
            tracing::info!(
                tenant.id = tenancy.tenant(),
                tex.executor = executor,
                code = error.code(),
                "a document gave no PDF"
            );
        }
        Ok(result)
    }

    /// Ends what still runs.
    pub(crate) fn end_all(&self) {
        self.ending.cancel();
    }

    /// Waits until nothing runs any more, and nothing of it is left.
    pub(crate) async fn idle(&self) {
        self.runs.close();
        self.runs.wait().await;
    }

    /// A place for one more document in memory, if there is one.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    fn executor(&self, settings: TexSettings) -> Executor {
        match settings.executor {
            ExecutorSettings::Local => Executor::Local(LocalExecutor {
                scratch: self.options.scratch.clone(),
                allow_lualatex: settings.allow_lualatex,
                allow_unconfined: self.options.allow_unconfined,
                ..LocalExecutor::default()
            }),
            ExecutorSettings::Rbehzadan(service) => Executor::Remote(RemoteExecutor {
                api_key: service.api_key.map(|key| self.key(key)),
                timeout: service.timeout,
                poll_interval: service.poll_interval,
                ..RemoteExecutor::new(service.url)
            }),
        }
    }

    /// Looks the key up at each request, among the secrets of the layer that names it.
    fn key(&self, key: ApiKey) -> ApiKeySource {
        let asked = Arc::new((self.options.secrets.clone(), key));
        Arc::new(move || {
            let asked = Arc::clone(&asked);
            Box::pin(async move {
                let (
                    secrets,
                    ApiKey {
                        name,
                        layer,
                        address,
                    },
                ) = &*asked;
                let field = "tex.rbehzadan.apiKey";
                Ok(secrets.of_document(*layer, address, field, name).await?)
            })
        })
    }
}

/// The stable word for an error: of the lease, if it is that, for then it says what to do next.
pub(crate) fn code(error: &TexError) -> &'static str {
    match error {
        TexError::Revoked { .. } => "LEASE_LOST",
        TexError::Unavailable(SessionUnavailable(source)) => {
            let acquire = source
                .downcast_ref::<AcquireError>()
                .map(AcquireError::code);
            let check = source.downcast_ref::<CheckError>().map(CheckError::code);
            acquire.or(check).unwrap_or("LEASE_UNAVAILABLE")
        }
        error => error.code(),
    }
}
