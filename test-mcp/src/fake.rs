//! A server that counts its sessions, logs its requests, and fails as it is told.
//!
//! It speaks streamable HTTP at [`FakeMcp::url`] on a free port of loopback. Its tools are `echo` (gives its arguments
//! back), `slow` (answers when it is released, or never) and `fail` (`isError`). Nothing in it takes time by itself: a
//! step that hangs does so until [`FakeMcp::release`], and [`FakeMcp::until`] waits for what a test wants to see.

mod fault;
mod log;
mod serve;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

pub use fault::{Fault, Gone, Step};
pub use log::Request;

/// The longest that [`FakeMcp::until`] waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server. Dropped, it is gone, connections and all.
#[derive(Debug)]
pub struct FakeMcp {
    shared: Arc<Shared>,
    url: String,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Counts what has happened.
    moments: watch::Sender<u64>,
    /// Counts the releases.
    gate: watch::Sender<u64>,
    /// What the server says by itself, to the streams of its sessions.
    events: broadcast::Sender<String>,
}

#[derive(Debug)]
struct State {
    requests: Vec<Request>,
    unexpected: Vec<String>,
    live: BTreeSet<String>,
    /// All that were ever opened.
    opened: Vec<String>,
    /// The version that it was told for each of them, if it was.
    agreed: BTreeMap<String, Option<String>>,
    /// The one to agree on, if not the newest.
    version: Option<&'static str>,
    /// The requests that the client has cancelled, by session and id.
    cancelled: HashSet<(Option<String>, String)>,
    running: usize,
    streams: usize,
    faults: BTreeMap<Step, Fault>,
    gone: Gone,
    sessionless: bool,
    event_answers: bool,
    tools: Vec<Value>,
    page: usize,
}

impl FakeMcp {
    /// Starts a server.
    ///
    /// # Panics
    /// No port is free.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                requests: Vec::new(),
                unexpected: Vec::new(),
                live: BTreeSet::new(),
                opened: Vec::new(),
                agreed: BTreeMap::new(),
                version: None,
                cancelled: HashSet::new(),
                running: 0,
                streams: 0,
                faults: BTreeMap::new(),
                gone: Gone::NotFound,
                sessionless: false,
                event_answers: false,
                tools: tools(),
                page: usize::MAX,
            }),
            moments: watch::Sender::new(0),
            gate: watch::Sender::new(0),
            events: broadcast::Sender::new(16),
        });
        let app = Router::new()
            .fallback(serve::answer)
            .with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Self {
            shared,
            url: format!("http://{address}/mcp"),
            serving,
        }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on `step` fails so.
    pub fn fail(&self, step: Step, fault: Fault) {
        self.state().faults.insert(step, fault);
    }

    /// `step` does not fail any more.
    pub fn heal(&self, step: Step) {
        self.state().faults.remove(&step);
    }

    /// Lets go on what hangs now, and the calls of `slow` that wait now.
    pub fn release(&self) {
        self.shared.gate.send_modify(|releases| *releases += 1);
    }

    /// Ends all sessions from this side; from now on unknown ones are refused so.
    pub fn expire(&self, how: Gone) {
        let mut state = self.state();
        state.gone = how;
        state.live.clear();
        drop(state);
        self.shared.happened();
    }

    /// From now on `initialize` gives no session.
    pub fn without_sessions(&self) {
        self.state().sessionless = true;
    }

    /// From now on `initialize` agrees on this version of the protocol, and not on the newest.
    pub fn agree_on(&self, version: &'static str) {
        self.state().version = Some(version);
    }

    /// From now on requests are answered by a stream of events.
    pub fn answer_by_events(&self) {
        self.state().event_answers = true;
    }

    /// Offers these tools, so many on a page, and says to the open streams that the list has changed.
    pub fn set_tools(&self, tools: Vec<Value>, page: usize) {
        let mut state = self.state();
        state.tools = tools;
        state.page = page;
        drop(state);
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        let _ = self.shared.events.send(changed.to_string());
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// The requests of one step.
    pub fn requests_of(&self, step: Step) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.step() == Some(step));
        requests
    }

    /// How many requests there were of one step.
    pub fn count(&self, step: Step) -> usize {
        self.requests_of(step).len()
    }

    /// The sessions that are open.
    pub fn live(&self) -> BTreeSet<String> {
        self.state().live.clone()
    }

    /// All sessions that were ever opened, in order.
    pub fn opened(&self) -> Vec<String> {
        self.state().opened.clone()
    }

    /// How many calls of `slow` wait.
    pub fn running(&self) -> usize {
        self.state().running
    }

    /// How many streams for the server's own messages are open.
    pub fn streams(&self) -> usize {
        self.state().streams
    }

    /// Waits until `seen` is so.
    ///
    /// # Panics
    /// It does not come to be so; `what` says what was waited for.
    pub async fn until(&self, what: &str, seen: impl Fn(&Self) -> bool) {
        let mut moments = self.shared.moments.subscribe();
        let waited = tokio::time::timeout(PATIENCE, async {
            while !seen(self) {
                let _ = moments.changed().await;
            }
        });
        assert!(
            waited.await.is_ok(),
            "not seen: {what}; requests: {:#?}",
            self.requests()
        );
    }

    /// Checks that each request was one that a client may send.
    ///
    /// # Panics
    /// One was not.
    pub fn assert_no_unexpected(&self) {
        let unexpected = self.state().unexpected.clone();
        assert!(unexpected.is_empty(), "{unexpected:#?}");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for FakeMcp {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn happened(&self) {
        self.moments.send_modify(|moments| *moments += 1);
    }
}

fn tools() -> Vec<Value> {
    let properties = json!({
        "text": {"type": "string"}, "times": {"type": "integer"}, "loud": {"type": "boolean"},
    });
    vec![
        json!({"name": "echo", "description": "Gives its arguments back",
            "inputSchema": {"type": "object", "properties": properties}}),
        json!({"name": "slow", "inputSchema": {"type": "object"}}),
        json!({"name": "fail", "inputSchema": {"type": "object"}}),
    ]
}
