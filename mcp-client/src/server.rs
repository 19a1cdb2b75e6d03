//! What a connection is made to.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use reqwest::Url;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::error::BoxError;

/// A future that gives what is needed at the moment of use.
type Sourced<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// Gives the headers of one request, those of its authorisation; asked anew for every request, so that a secret is
/// read at the moment of use and kept no longer than the answer takes. Its error must hold no secret.
pub type HeaderSource = Arc<dyn Fn() -> Sourced<HeaderMap> + Send + Sync>;

/// Gives the variables that a child gets besides the few inherited ones; asked at each start.
pub type EnvSource = Arc<dyn Fn() -> Sourced<BTreeMap<String, String>> + Send + Sync>;

/// An MCP server, and how to treat it.
#[derive(Clone)]
pub struct McpServer {
    /// Its name in logs and errors.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// How long one `tools/call` or one page of `tools/list` may take.
    pub call_timeout: Duration,
    /// How long opening a session may take, all in all, once its guard has let it.
    pub init_timeout: Duration,
    /// Arguments for every call, filled in where the tool's schema has them. They win over the caller's.
    pub default_args: Map<String, Value>,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum McpTransport {
    /// Streamable HTTP: the session lives in the server.
    Http(HttpServer),
    /// A child process that talks over its standard input and output: the session lives in the child.
    Stdio(StdioServer),
}

/// A server behind a URL.
#[derive(Clone)]
pub struct HttpServer {
    /// Where it is.
    pub url: Url,
    /// The headers of each request.
    pub headers: HeaderSource,
    /// Hold a stream of the server's own messages open (GET), so that it notices when this process is gone.
    pub event_stream: bool,
}

/// A server that is started for each session.
#[derive(Clone)]
pub struct StdioServer {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its working directory; that of this process unless said otherwise.
    pub cwd: Option<PathBuf>,
    /// Its variables besides the inherited ones.
    pub env: EnvSource,
    /// The program to guard it, whose `main` begins with `supervise::guardian_main`; this one, unless given.
    pub guardian: Option<PathBuf>,
}

/// A tool that a server offers.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name, for [`crate::McpConnection::call`].
    pub name: String,
    /// What it does, in the server's words.
    pub description: Option<String>,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
}

impl HttpServer {
    /// The address as it may be shown and stored: whatever the URL's query holds, it is replaced by a digest, so that
    /// two addresses that differ in it stay different.
    pub fn endpoint(&self) -> String {
        let mut url = self.url.clone();
        // They fail only for addresses that have no place for a user at all.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        if let Some(query) = self.url.query() {
            let digest = Sha256::digest(query.as_bytes());
            let digest: String = digest
                .iter()
                .take(8)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            url.set_query(Some(&format!("sha256={digest}")));
        }
        url.into()
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Default arguments may be secrets too.
        f.debug_struct("McpServer")
            .field("name", &self.name)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("endpoint", &self.endpoint())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioServer")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}
