//! A connection to a fake server, under guards that take notes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use mcp_client::{HeaderSource, HttpServer, McpConnection, McpError, McpServer, McpTransport};
use serde_json::{Map, Value};
use test_mcp::fake::{FakeMcp, Step};
use tokio::task::JoinHandle;

use crate::guard::Guards;

pub(crate) struct Rig {
    pub(crate) fake: FakeMcp,
    pub(crate) guards: Guards,
    pub(crate) connection: Arc<McpConnection>,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With this changed about the server.
    pub(crate) async fn with(change: impl FnOnce(&mut McpServer)) -> Self {
        let fake = FakeMcp::start().await;
        let mut server = server(fake.url());
        change(&mut server);
        let guards = Guards::new();
        let connection = Arc::new(McpConnection::new(server, guards.source()));
        Self {
            fake,
            guards,
            connection,
        }
    }

    pub(crate) async fn echo(&self) -> Result<Value, McpError> {
        self.connection.call("echo", Map::new()).await
    }

    /// A call in a task of its own.
    pub(crate) fn spawn(&self, tool: &'static str) -> JoinHandle<Result<Value, McpError>> {
        let connection = Arc::clone(&self.connection);
        tokio::spawn(async move { connection.call(tool, Map::new()).await })
    }

    /// A call of `slow` that the server has got.
    pub(crate) async fn spawn_slow(&self) -> JoinHandle<Result<Value, McpError>> {
        let running = self.fake.running();
        let call = self.spawn("slow");
        self.fake
            .until("the call runs", |fake| fake.running() > running)
            .await;
        call
    }

    /// No session is at the server, its DELETE has come, and nothing that should not have.
    pub(crate) fn assert_deleted(&self, sessions: usize) {
        assert!(self.fake.live().is_empty(), "{:?}", self.fake.live());
        assert_eq!(self.fake.count(Step::Delete), sessions);
        self.fake.assert_no_unexpected();
    }
}

pub(crate) fn server(url: &str) -> McpServer {
    McpServer {
        name: "box".to_owned(),
        transport: McpTransport::Http(HttpServer {
            url: url.parse().unwrap(),
            headers: rotating(),
            event_stream: false,
        }),
        call_timeout: Duration::from_secs(20),
        init_timeout: Duration::from_secs(20),
        default_args: Map::new(),
    }
}

pub(crate) fn http(server: &mut McpServer) -> &mut HttpServer {
    match &mut server.transport {
        McpTransport::Http(http) => http,
        McpTransport::Stdio(_) => panic!("not over HTTP"),
    }
}

/// Another token each time it is asked.
pub(crate) fn rotating() -> HeaderSource {
    let asked = AtomicUsize::new(0);
    Arc::new(move || {
        let token = format!("Bearer {}", asked.fetch_add(1, Ordering::Relaxed) + 1);
        Box::pin(async move { Ok(headers(&[("authorization", &token)])) })
    })
}

pub(crate) fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    let pairs: BTreeMap<_, _> = pairs.collect();
    (&pairs
        .into_iter()
        .collect::<std::collections::HashMap<_, _>>())
        .try_into()
        .unwrap()
}
