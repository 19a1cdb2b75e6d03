//! One connection: at most one session at a time, opened when it is needed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lease_toolpack::SessionGuard;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::arguments::with_defaults;
use crate::error::McpError;
use crate::server::{McpServer, Tool};
use crate::session::{CLOSED, Session, Why, keep};

/// Gives the guard of the next session.
pub type GuardSource = Box<dyn Fn() -> Arc<dyn SessionGuard> + Send + Sync>;

/// A connection to an MCP server, for one user of it. Opens nothing before the first call, and has at most one session
/// at a time: the next is opened when the guard of the last one knows of its end.
///
/// Dropped, its session is ended in the background; [`Self::close`] waits for it.
pub struct McpConnection {
    server: Arc<McpServer>,
    guards: GuardSource,
    /// Whoever opens a session holds it meanwhile.
    opening: tokio::sync::Mutex<()>,
    failures: Mutex<Failures>,
    slot: Arc<Slot>,
}

impl fmt::Debug for McpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpConnection").field(&self.server).finish()
    }
}

impl McpConnection {
    /// A connection to `server`, each of whose sessions is guarded by what `guards` gives.
    pub fn new(server: McpServer, guards: GuardSource) -> Self {
        Self {
            server: Arc::new(server),
            guards,
            opening: tokio::sync::Mutex::default(),
            failures: Mutex::default(),
            slot: Arc::default(),
        }
    }

    /// The tools that the server offers, the first 1000 of them. A use of the session, as a call is.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn tools(&self) -> Result<Vec<Tool>, McpError> {
        Ok(self.session().await?.tools().await?.to_vec())
    }

    /// Calls a tool; gives what `tools/call` gave (`content`, `isError`, …), without fields that the protocol does not know.
    ///
    /// # Errors
    /// [`McpError`] says what the caller can do.
    ///
    /// # Cancellation
    /// A session that is being opened is ended again; a call under way is cancelled at the server, and the session stays.
    pub async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, McpError> {
        let session = self.session().await?;
        let defaults = &self.server.default_args;
        let arguments = if defaults.is_empty() {
            arguments
        } else {
            match session.schema(tool).await? {
                Some(schema) => with_defaults(defaults, &schema, arguments),
                None => arguments,
            }
        };
        session.call(tool, arguments).await
    }

    /// Ends the session, if there is one, and waits until all that earlier ones left is cleaned up. Calls under way fail.
    /// A later call opens anew.
    pub async fn close(&self) {
        if let Some(session) = self.slot.close() {
            session.closed().await;
        }
    }

    /// The open session; opened now, if there is none. Whoever waits while another opens it shares in what comes of that,
    /// for it would not fare better, only later.
    async fn session(&self) -> Result<Arc<Session>, McpError> {
        let closes = self.slot.closes();
        if let Some(session) = self.slot.open() {
            return Ok(session);
        }
        let before = self.failures().count;
        let _turn = self.opening.lock().await;
        if let Some(error) = self.failures().since(before, closes) {
            return Err(error);
        }
        let opened = self.open(closes).await;
        if let Err(error) = &opened {
            self.failures().note(closes, error);
        }
        opened
    }

    /// Opens a session, unless there is one by now.
    async fn open(&self, closes: u64) -> Result<Arc<Session>, McpError> {
        match self.slot.last() {
            Some(session) if session.is_open() => return Ok(session),
            Some(session) => session.closed().await,
            None => {}
        }
        let session = Arc::new(Session::new(Arc::clone(&self.server), (self.guards)()));
        if !self.slot.put(&session, closes) {
            return Err(session.unopened(CLOSED));
        }
        let (opened, opening) = oneshot::channel();
        tokio::spawn({
            let (slot, session) = (Arc::clone(&self.slot), Arc::clone(&session));
            async move {
                keep(Arc::clone(&session), opened).await;
                slot.forget(&session);
            }
        });
        let abandoned = EndOnDrop(&session);
        match opening.await {
            Ok(Ok(())) => {
                std::mem::forget(abandoned);
                Ok(session)
            }
            Ok(Err(error)) => {
                if matches!(error, McpError::Revoked(_)) {
                    session.ended().await;
                }
                Err(error)
            }
            Err(_) => Err(session.unopened("its opening was cut off")),
        }
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for McpConnection {
    fn drop(&mut self) {
        self.slot.close();
    }
}

/// Ends a session whose opening nobody waits for any more.
struct EndOnDrop<'a>(&'a Session);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end(Why::Unopened);
    }
}

/// The attempts to open a session that have failed. One that nobody waited for any more is none.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    /// The last one, and how often the connection had been closed when its caller came.
    last: Option<(u64, McpError)>,
}

impl Failures {
    fn note(&mut self, closes: u64, error: &McpError) {
        self.count += 1;
        self.last = Some((closes, error.clone()));
    }

    /// The last failure, if there was one since there were `count`, and for a caller of the same time: that the connection
    /// was closed is nothing to those who came after that.
    fn since(&self, count: u64, closes: u64) -> Option<McpError> {
        let (failed, error) = self.last.as_ref()?;
        (self.count > count && *failed == closes).then(|| error.clone())
    }
}

/// The last session of a connection, until its guard knows of its end.
#[derive(Debug, Default)]
struct Slot(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    session: Option<Arc<Session>>,
    /// How often the connection was closed.
    closes: u64,
}

impl Slot {
    fn last(&self) -> Option<Arc<Session>> {
        self.held().session.clone()
    }

    fn open(&self) -> Option<Arc<Session>> {
        self.last().filter(|session| session.is_open())
    }

    fn closes(&self) -> u64 {
        self.held().closes
    }

    /// Holds `session`, unless the connection was closed since `closes`: whoever closes it waits for what it saw here.
    fn put(&self, session: &Arc<Session>, closes: u64) -> bool {
        let mut held = self.held();
        let fits = held.closes == closes;
        if fits {
            held.session = Some(Arc::clone(session));
        }
        fits
    }

    fn close(&self) -> Option<Arc<Session>> {
        let mut held = self.held();
        held.closes += 1;
        let session = held.session.clone()?;
        session.end(Why::Closed);
        Some(session)
    }

    /// Lets go of `session`, unless a newer one is held.
    fn forget(&self, session: &Arc<Session>) {
        let mut held = self.held();
        if held
            .session
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, session))
        {
            held.session = None;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use lease_toolpack::Unguarded;
    use serde_json::Map;

    use super::Slot;
    use crate::server::{HttpServer, McpServer, McpTransport};
    use crate::session::Session;

    fn session() -> Arc<Session> {
        let server = McpServer {
            name: "box".to_owned(),
            transport: McpTransport::Http(HttpServer {
                url: "http://127.0.0.1:9/mcp".parse().unwrap(),
                headers: Arc::new(|| Box::pin(async { Ok(Default::default()) })),
                event_stream: false,
            }),
            call_timeout: Duration::from_secs(1),
            init_timeout: Duration::from_secs(1),
            default_args: Map::new(),
        };
        Arc::new(Session::new(Arc::new(server), Arc::new(Unguarded)))
    }

    #[tokio::test]
    async fn an_old_session_that_is_forgotten_late_leaves_the_new_one() {
        let (slot, old, new) = (Slot::default(), session(), session());
        assert!(slot.put(&old, 0));
        assert!(slot.put(&new, 0));
        slot.forget(&old);
        assert!(slot.last().is_some_and(|last| Arc::ptr_eq(&last, &new)));
        slot.forget(&new);
        assert!(slot.last().is_none());
    }
}
