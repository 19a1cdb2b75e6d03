//! From settings to a pod.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lease_shared::definition::{ConfigDocuments, MongoDocuments};
use lease_shared::{LeaseService, StoreError, in_full};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{Brain, BrainBuilder, BrainError, Site, Tasks, Working};
use crate::cluster::{PodError, PodRegistry};
use crate::dispatch::{Arrivals, Dispatcher, Peers, Runner, arrivals};
use crate::http::{self, InternalSecret, Served};
use crate::jobs::Jobs;
use crate::mcp::Mcp;
use crate::sweeper::{self, Sweeper};
use crate::tex::TexParts;

/// How long between two tries to reach the store.
const PAUSE: Duration = Duration::from_secs(1);
/// How often metrics are tidied, or they would grow where nobody reads them.
const UPKEEP: Duration = Duration::from_secs(10);

impl BrainBuilder {
    /// Serves, waits until the store answers, and becomes a pod. Nothing is acquired before the pod's own row is
    /// acknowledged.
    ///
    /// # Errors
    /// What waiting does not mend: a right that is missing, a node name that another pod has. A definition that is broken
    /// shows at the first acquire under it. While the store is away it waits, and `/readyz` says so.
    ///
    /// # Cancellation
    /// Harmless. A pod that was just registered is found dead.
    pub async fn start(self) -> Result<Brain, BrainError> {
        let site = Arc::new(Site {
            access: self.access,
            ..Site::default()
        });
        // Whatever becomes of this: what no handle can end, ends with the brain, or with a start that does not become one.
        let gone = CancellationToken::new();
        let stopping = gone.child_token();
        let ending = gone.clone().drop_guard();
        let mut tasks = Tasks::default();
        if self.secret.is_none() {
            tracing::warn!(
                "no internal token: all internal calls are refused, also those of other pods"
            );
        }
        let app = http::router(Arc::clone(&site), InternalSecret(self.secret.clone()));
        let closed = site.closed.clone();
        let listener = self.listener;
        let serving = AbortOnDropHandle::new(tokio::spawn(http::serve(listener, app, closed)));

        let join = || PodRegistry::join(&self.database, self.pod.clone());
        let joining = when_there(PodError::is_transient, join);
        let registry = Arc::new(
            while_running(&mut tasks, joining)
                .await?
                .map_err(BrainError::Pod)?,
        );
        let documents = self
            .documents
            .unwrap_or_else(|| ConfigDocuments::Mongo(MongoDocuments::new(&self.database)));
        let mcp = self
            .mcp
            .map(|settings| Mcp::new(settings, documents.clone()));
        let mut handlers = self.registry;
        if let Some(mcp) = &mcp {
            mcp.register(&mut handlers).map_err(BrainError::Handler)?;
        }
        let tex = self
            .tex
            .map(|options| TexParts::new(options, documents.clone()));
        if let Some(tex) = &tex {
            tex.register(&mut handlers).map_err(BrainError::Handler)?;
        }
        let (arrivals, arriving) = arrivals(&handlers);
        let arrivals: Arc<Arrivals> = Arc::new(arrivals);
        let connect = || {
            let listener = Arc::clone(&arrivals);
            LeaseService::builder(self.database.clone())
                .documents(documents.clone())
                .listener(listener)
                .follow_changes(false)
                .start()
        };
        let connecting = when_there(StoreError::is_transient, connect);
        let leases = while_running(&mut tasks, connecting)
            .await?
            .map_err(BrainError::Store)?;
        let probing = when_there(StoreError::is_transient, || leases.probe());
        while_running(&mut tasks, probing)
            .await?
            .map_err(BrainError::Store)?;

        let runner = Runner::new(handlers.clone(), gone);
        let peers = Peers::new(self.secret.clone()).map_err(BrainError::Client)?;
        let dispatcher = Dispatcher {
            pod: registry.pod().clone(),
            registry: Arc::clone(&registry),
            cleanups: leases.cleanups(),
            types: handlers.types().into(),
            runner: runner.clone(),
            peers,
        };
        let sweeper = Sweeper {
            leases: leases.clone(),
            registry: Arc::clone(&registry),
            interval: self.reap_interval,
            reconcile_interval: self.reconcile_interval,
            state: Arc::new(sweeper::State::new()),
        };
        let pool = |mcp: Mcp| mcp.pool(leases.clone(), registry.pod().clone());
        let mcp = mcp.map(pool).transpose();
        let mcp = mcp.map_err(|error| BrainError::Handler(error.into()))?;
        let parts = |tex: TexParts| tex.start(leases.clone(), registry.pod().clone());
        let tex = tex.map(parts).transpose();
        let tex = tex.map_err(|error| BrainError::Handler(error.into()))?;
        let served = Served {
            leases: leases.clone(),
            database: self.database,
            registry: Arc::clone(&registry),
            runner: runner.clone(),
            sweeper: sweeper.clone(),
            jobs: Jobs::new(stopping.clone()),
            mcp: mcp.clone(),
            tex: tex.clone(),
            metrics: self.metrics.clone(),
            stopping: stopping.clone(),
        };
        let _ = site.served.set(served);

        let mut watch = leases.definitions().watch();
        tasks.spawn("the watch of definitions", async move {
            Err(watch.ended().await)
        });
        let beating = Arc::clone(&registry);
        tasks.spawn("the heartbeat", async move {
            let ended = beating.keep_alive().await;
            ended.map_err(|error| in_full(&error))
        });
        if let Some(pool) = mcp.clone() {
            tasks.spawn("the pool of MCP sessions", async move {
                pool.keep().await;
                Ok(())
            });
        }
        let late = Late {
            registry: Arc::clone(&registry),
            leases: leases.clone(),
            dispatcher: dispatcher.clone(),
        };
        tasks.spawn("the look after a late heartbeat", late.watch());
        if let Some(metrics) = self.metrics {
            tasks.spawn("the upkeep of metrics", async move {
                loop {
                    tokio::time::sleep(UPKEEP).await;
                    metrics.run_upkeep();
                }
            });
        }
        let cleaning =
            AbortOnDropHandle::new(tokio::spawn(dispatcher.run(arriving, stopping.clone())));
        let sweeping = AbortOnDropHandle::new(tokio::spawn(sweeper.run(stopping.clone())));
        let running = when_there(PodError::is_transient, || registry.running());
        while_running(&mut tasks, running)
            .await?
            .map_err(BrainError::Pod)?;
        tracing::info!(pod.id = %registry.pod(), node.name = registry.settings().node_name, "running");
        Ok(Brain {
            leases,
            registry,
            runner,
            mcp,
            tex,
            stopping,
            site,
            tasks,
            working: Working {
                serving,
                cleaning,
                sweeping,
            },
            drain: self.drain,
            _gone: ending,
        })
    }
}

/// Tries until the store answers; what waiting does not mend is given at once.
async fn when_there<T, E, F>(
    is_transient: fn(&E) -> bool,
    mut attempt: impl FnMut() -> F,
) -> Result<T, E>
where
    E: std::error::Error + 'static,
    F: Future<Output = Result<T, E>>,
{
    loop {
        match attempt().await {
            Err(error) if is_transient(&error) => {
                tracing::warn!(error = in_full(&error), "waiting for the store");
                tokio::time::sleep(PAUSE).await;
            }
            known => return known,
        }
    }
}

/// Waits, unless one of the tasks ends meanwhile.
async fn while_running<T>(
    tasks: &mut Tasks,
    work: impl Future<Output = T>,
) -> Result<T, BrainError> {
    tokio::select! {
        error = tasks.ended() => Err(error),
        done = work => Ok(done),
    }
}

/// What a pod does that may have been taken for dead: it asks about its leases, and ends what runs under those it lost.
struct Late {
    registry: Arc<PodRegistry>,
    leases: LeaseService,
    dispatcher: Dispatcher,
}

impl Late {
    async fn watch(self) -> Result<(), String> {
        let mut ending = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                () = self.registry.late() => {}
                Some(ended) = ending.join_next() => {
                    ended.map_err(|error: tokio::task::JoinError| error.to_string())?;
                    continue;
                }
            }
            tracing::warn!(
                "the heartbeat was late, so others may have taken this pod for dead; asking about all its leases"
            );
            let lost = loop {
                match self.leases.lost_here().await {
                    Ok(lost) => break lost,
                    Err(error) => {
                        tracing::warn!(
                            error = in_full(&error),
                            "could not ask about the leases of this pod"
                        );
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            };
            // All at once, and beside the next late beat: what waits for another pod, or for its next try, must not keep
            // the rest from beginning. How many handlers run, the runner bounds.
            for revocation in lost {
                tracing::warn!(lease.token = %revocation.token, reason = revocation.reason.as_str(), "lost while this pod stood still");
                let dispatcher = self.dispatcher.clone();
                ending.spawn(async move { dispatcher.clean_up_lost(revocation).await });
            }
        }
    }
}
