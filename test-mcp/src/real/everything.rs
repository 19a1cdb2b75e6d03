//! `@modelcontextprotocol/server-everything`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use reqwest::{Client, StatusCode};
use serde_json::json;

use super::server::Server;
use super::tools::Tools;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);

const PROGRAM: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";

/// MCP's own server for testing, over streamable HTTP on loopback; it ends with this value.
///
/// It also ends when this process is killed. `Drop` blocks until it is gone.
pub struct Everything(Server);

/// A moment in the life of a session, as the server has written it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The session of that id has begun.
    Opened(String),
    /// It has ended.
    Ended(String),
}

impl Everything {
    /// Starts it and waits until it listens.
    pub async fn http(tools: &Tools) -> Result<Self> {
        let directory = Server::directory_for("everything")?;
        let program = tools.servers.join(PROGRAM);
        // 0 leaves the choice of a free port to the system.
        let server = Server::start(
            tools,
            program,
            ["streamableHttp"],
            &[("PORT", "0")],
            directory,
        );
        Ok(Self(server.await?))
    }

    /// Its endpoint.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.0.port())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// The folder of its log and of all that it writes.
    pub fn directory(&self) -> &Path {
        self.0.directory()
    }

    /// What became of its sessions so far, in order, by its own log.
    pub fn session_events(&self) -> Result<Vec<SessionEvent>> {
        Ok(session_events(&self.0.log()?))
    }

    /// Asks it something within a session: does it know that session?
    pub async fn has_session(&self, id: &str) -> Result<bool> {
        // A client is made with TLS even where it is not used, and that needs a provider; a second one is refused.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let answer = Client::builder()
            .no_proxy()
            .timeout(ANSWER)
            .build()?
            .post(self.url())
            .header("accept", "application/json, text/event-stream")
            .header("mcp-session-id", id)
            .json(&question)
            .send()
            .await
            .context("ask a server for a session")?;
        match answer.status() {
            StatusCode::OK => Ok(true),
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => Ok(false),
            status => bail!("asked for a session, the server answers {status}"),
        }
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        self.0.log_tail()
    }
}

impl Tools {
    /// The command line of the server that speaks over its standard input and output.
    pub fn everything_stdio(&self) -> Vec<String> {
        let program = self.servers.join(PROGRAM);
        vec![text(&self.node), text(&program), "stdio".to_owned()]
    }
}

pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Only of whole lines.
fn session_events(log: &str) -> Vec<SessionEvent> {
    let event = |line: &str| {
        if let Some(id) = line.strip_prefix("Session initialized with ID: ") {
            return Some(SessionEvent::Opened(id.to_owned()));
        }
        let rest = line.strip_prefix("Transport closed for session ")?;
        let (id, _) = rest.split_once(',')?;
        Some(SessionEvent::Ended(id.to_owned()))
    };
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().filter_map(event).collect()
}
