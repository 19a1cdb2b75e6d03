//! One connection for each tool and user of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lease_shared::definition::DocumentChange;
use lease_shared::{LeaseRequest, LeaseService, LeaseType, PodId, Tenancy};
use lease_toolpack::SessionGuard;
use mcp_client::{GuardSource, McpConnection, McpTransport};
use mongodb::bson::{Document, doc};
use tokio::sync::broadcast;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::task::TaskTracker;

use super::handler::{ENDPOINT, TOOL, TRANSPORT};
use super::holder_ref;
use super::tools::{Tool, ToolError, ToolName, Tools, Version, tool_at};
use crate::guard::{Holds, LeaseSessionGuard, Tracker, UNGUARDED};

/// How long a session that no lease limits may be idle, and a connection without a session be kept.
const IDLE: Duration = Duration::from_secs(600);
/// How often it is looked for such.
const UPKEEP: Duration = Duration::from_secs(60);

/// The connections of this pod.
#[derive(Clone)]
pub(crate) struct Pool {
    tools: Tools,
    lease_type: LeaseType,
    leases: LeaseService,
    pod: PodId,
    tracker: Tracker,
    connections: Arc<Mutex<Connections>>,
    closing: TaskTracker,
}

type Key = (ToolName, Tenancy);

#[derive(Default)]
struct Connections {
    open: HashMap<Key, Arc<Pooled>>,
    /// Nothing is opened any more.
    closed: bool,
}

/// A connection, and what it was made from.
pub(crate) struct Pooled {
    pub(crate) connection: McpConnection,
    version: Version,
    guard: Arc<Mutex<Weak<LeaseSessionGuard>>>,
    used: Mutex<Instant>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("connections", &self.lock().open.len())
            .finish_non_exhaustive()
    }
}

impl Pool {
    pub(crate) fn new(
        tools: Tools,
        lease_type: LeaseType,
        leases: LeaseService,
        pod: PodId,
        tracker: Tracker,
    ) -> Self {
        Self {
            tools,
            lease_type,
            leases,
            pod,
            tracker,
            connections: Arc::default(),
            closing: TaskTracker::new(),
        }
    }

    /// The connection of someone to a tool, made anew if the tool's document is another than the one it was made from.
    /// Opens no session yet. Nothing when the pool is closed.
    pub(crate) async fn connection(
        &self,
        tenancy: &Tenancy,
        name: &ToolName,
    ) -> Result<Option<Arc<Pooled>>, ToolError> {
        // Read at each use: a document that changed is never used as it was.
        let mut tool = self.tools.find(tenancy, name).await?;
        let key = (name.clone(), tenancy.clone());
        if self.is_other(&key, &tool) {
            // It is the connection that may be newer than what was read.
            tool = self.tools.find(tenancy, name).await?;
        }
        let mut connections = self.lock();
        if connections.closed {
            return Ok(None);
        }
        let pooled = match connections.open.entry(key) {
            Entry::Occupied(entry) if entry.get().version == tool.version => {
                Arc::clone(entry.get())
            }
            Entry::Occupied(mut entry) => {
                let new = Arc::new(self.pooled(tenancy, name, tool));
                let old = entry.insert(Arc::clone(&new));
                self.close(old);
                new
            }
            Entry::Vacant(entry) => {
                Arc::clone(entry.insert(Arc::new(self.pooled(tenancy, name, tool))))
            }
        };
        *pooled.used() = Instant::now();
        Ok(Some(pooled))
    }

    /// Whether there is a connection that was made from another document.
    fn is_other(&self, key: &Key, tool: &Tool) -> bool {
        let connections = self.lock();
        let pooled = connections.open.get(key);
        pooled.is_some_and(|pooled| pooled.version != tool.version)
    }

    /// The connection of someone to a tool as it was last used, taken out of the pool.
    pub(crate) fn take(&self, tenancy: &Tenancy, name: &ToolName) -> Option<Arc<Pooled>> {
        let key = (name.clone(), tenancy.clone());
        self.lock().open.remove(&key)
    }

    /// Closes everything, and opens nothing any more. Returns when all sessions have ended.
    pub(crate) async fn close_all(&self) {
        let open = {
            let mut connections = self.lock();
            connections.closed = true;
            std::mem::take(&mut connections.open)
        };
        for pooled in open.into_values() {
            self.close(pooled);
        }
        self.closing.close();
        self.closing.wait().await;
    }

    /// Follows the changes of documents, and closes what nobody uses; for as long as it runs.
    pub(crate) async fn keep(self) {
        let mut changes = self.leases.definitions().changes();
        let mut upkeep = interval(UPKEEP);
        let mut unsure = false;
        upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                change = changes.recv() => match change {
                    Ok(DocumentChange::At(address)) => {
                        if let Some(tool) = tool_at(address.path()) {
                            unsure |= !self.look_again(|(name, _)| *name == tool).await;
                        }
                    }
                    Ok(DocumentChange::Any) | Err(broadcast::error::RecvError::Lagged(_)) => {
                        unsure = !self.look_again(|_| true).await;
                    }
                    Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
                },
                _ = upkeep.tick() => {
                    self.close_idle();
                    if unsure {
                        unsure = !self.look_again(|_| true).await;
                    }
                }
            }
        }
    }

    /// Closes those of the connections whose documents are not what they were made from. False if that is not known of all.
    async fn look_again(&self, which: impl Fn(&Key) -> bool) -> bool {
        let keys: Vec<Key> = {
            let connections = self.lock();
            connections
                .open
                .keys()
                .filter(|key| which(key))
                .cloned()
                .collect()
        };
        for key in keys {
            let (name, tenancy) = &key;
            let version = match self.tools.find(tenancy, name).await {
                Ok(tool) => Some(tool.version),
                Err(ToolError::Undefined { .. } | ToolError::Broken(_)) => None,
                // Nor will the others be, for now.
                Err(ToolError::Unavailable(_)) => return false,
            };
            let mut connections = self.lock();
            let Entry::Occupied(entry) = connections.open.entry(key) else {
                continue;
            };
            if Some(&entry.get().version) != version.as_ref() {
                let old = entry.remove();
                self.close(old);
            }
        }
        true
    }

    /// Forgets connections without a session, and closes the sessions that nothing else ends.
    fn close_idle(&self) {
        let mut connections = self.lock();
        let idle = |pooled: &Arc<Pooled>| {
            let unused = Arc::strong_count(pooled) == 1 && pooled.used().elapsed() >= IDLE;
            unused && pooled.holds() != Holds::Lease
        };
        for (_, pooled) in connections.open.extract_if(|_, pooled| idle(pooled)) {
            self.close(pooled);
        }
    }

    fn close(&self, pooled: Arc<Pooled>) {
        self.closing
            .spawn(async move { pooled.connection.close().await });
    }

    fn pooled(&self, tenancy: &Tenancy, name: &ToolName, tool: Tool) -> Pooled {
        let guard = Arc::new(Mutex::new(Weak::new()));
        let guards = self.guards(tenancy, name, &tool, Arc::clone(&guard));
        Pooled {
            version: tool.version,
            connection: McpConnection::new(tool.server, guards),
            guard,
            used: Mutex::new(Instant::now()),
        }
    }

    fn guards(
        &self,
        tenancy: &Tenancy,
        name: &ToolName,
        tool: &Tool,
        current: Arc<Mutex<Weak<LeaseSessionGuard>>>,
    ) -> GuardSource {
        let (base, pod_bound) = match &tool.server.transport {
            McpTransport::Http(server) => (
                doc! { TOOL: name.as_str(), TRANSPORT: "http", ENDPOINT: server.endpoint() },
                false,
            ),
            // The child ends with this pod.
            McpTransport::Stdio(_) => (doc! { TOOL: name.as_str(), TRANSPORT: "stdio" }, true),
        };
        let request = self.request(tenancy, name, tool, pod_bound, base.clone());
        let (leases, tracker) = (self.leases.clone(), self.tracker.clone());
        Box::new(move || {
            let guard = LeaseSessionGuard::new(
                leases.clone(),
                request.clone(),
                base.clone(),
                tracker.clone(),
            );
            let guard = Arc::new(guard);
            *current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&guard);
            guard as Arc<dyn SessionGuard>
        })
    }

    fn request(
        &self,
        tenancy: &Tenancy,
        name: &ToolName,
        tool: &Tool,
        pod_bound: bool,
        payload: Document,
    ) -> LeaseRequest {
        LeaseRequest::builder()
            .lease_type(self.lease_type.clone())
            .lease(tool.lease.clone())
            .tenancy(tenancy.clone())
            .holder_ref(holder_ref(name))
            .pod(self.pod.clone())
            .pod_bound(pod_bound)
            .payload(payload)
            .build()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pooled {
    /// Keeps the lease of its session while `use_of_it` is under way: one that takes long is a use all along.
    pub(crate) async fn in_use<T>(&self, use_of_it: impl Future<Output = T>) -> T {
        let done = tokio::select! {
            done = use_of_it => done,
            never = self.keep_in_use() => match never {},
        };
        *self.used() = Instant::now();
        done
    }

    async fn keep_in_use(&self) -> Infallible {
        loop {
            let guard = self
                .guard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .upgrade();
            match guard {
                Some(guard) => guard.check_in_use().await,
                None => sleep(UNGUARDED).await,
            }
        }
    }

    /// What holds its session.
    pub(crate) fn holds(&self) -> Holds {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        guard
            .upgrade()
            .map_or(Holds::Nothing, |guard| guard.holds())
    }

    fn used(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
