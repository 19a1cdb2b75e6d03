//! One session: what its calls share with the task that keeps it.

mod keeper;
mod request;

use std::sync::{Arc, OnceLock};

use lease_toolpack::{GuardError, SessionGuard, SessionLost};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest,
    PaginatedRequestParams, ServerResult,
};
use serde_json::{Map, Value};
use tokio::runtime;
use tokio_util::sync::CancellationToken;

pub(crate) use keeper::keep;

use crate::error::McpError;
use crate::fault::Fault;
use crate::server::{McpServer, Tool};
use crate::tools::{MAX_PAGES, MAX_TOOLS, ToolCache};
use crate::wire::Requests;

/// A session from before it is opened until its guard knows that it has ended. [`keep`] owns what has to be ended; a
/// call only asks for it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) server: Arc<McpServer>,
    pub(crate) guard: Arc<dyn SessionGuard>,
    tools: Arc<ToolCache>,
    /// Set when it is open.
    requests: OnceLock<Requests>,
    runtime: runtime::Handle,
    why: OnceLock<Why>,
    /// It has to end, and nothing more may be begun.
    ending: CancellationToken,
    /// It is no longer where it ran, as far as that could be brought about.
    ended: CancellationToken,
    /// Its guard knows.
    closed: CancellationToken,
}

/// Why a session ends.
#[derive(Debug, Clone)]
pub(crate) enum Why {
    /// Its guard says so.
    Revoked(SessionLost),
    /// Its server knows it no longer.
    Expired,
    /// What it runs over has ended.
    Broken(String),
    /// The connection was closed, or dropped.
    Closed,
    /// It could not be opened, or nobody waits for that any more.
    Unopened,
}

impl Session {
    pub(crate) fn new(server: Arc<McpServer>, guard: Arc<dyn SessionGuard>) -> Self {
        Self {
            server,
            guard,
            tools: Arc::default(),
            requests: OnceLock::new(),
            runtime: runtime::Handle::current(),
            why: OnceLock::new(),
            ending: CancellationToken::new(),
            ended: CancellationToken::new(),
            closed: CancellationToken::new(),
        }
    }

    /// Asks for its end. The first reason stands.
    pub(crate) fn end(&self, why: Why) {
        let _ = self.why.set(why);
        self.ending.cancel();
    }

    /// Whether it can be used.
    pub(crate) fn is_open(&self) -> bool {
        self.requests.get().is_some() && !self.ending.is_cancelled()
    }

    /// The error of a call for which it could not be opened.
    pub(crate) fn unopened(&self, why: &str) -> McpError {
        Fault::Broken(why.into()).of_opening(&self.server.name)
    }

    /// Waits until it is no longer where it ran.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Waits until its guard knows of its end.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Why it has to end, once it has.
    async fn ending(&self) -> Why {
        self.ending.cancelled().await;
        self.why.get().cloned().unwrap_or(Why::Closed)
    }

    /// The tools that the server lists now, or listed before without a change since. A use.
    pub(crate) async fn tools(&self) -> Result<Arc<[Tool]>, McpError> {
        self.used().await?;
        match self.tools.get() {
            Some(tools) => Ok(tools),
            None => self.list().await,
        }
    }

    /// The schema of a tool's arguments; a use only if the tools have to be listed for it.
    pub(crate) async fn schema(&self, tool: &str) -> Result<Option<Value>, McpError> {
        let tools = match self.tools.get() {
            Some(tools) => tools,
            None => self.tools().await?,
        };
        let tool = tools.iter().find(|listed| listed.name == tool);
        Ok(tool.map(|tool| tool.input_schema.clone()))
    }

    /// Calls a tool. A use.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, McpError> {
        self.used().await?;
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let result = self.request(request).await?;
        serde_json::to_value(result).map_err(|error| self.broken(error.to_string()))
    }

    /// Lists the tools, page by page, the first one's use having been allowed.
    async fn list(&self) -> Result<Arc<[Tool]>, McpError> {
        let changes = self.tools.changes();
        let mut tools = Vec::new();
        let mut cursor = None;
        for page in 1.. {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let ServerResult::ListToolsResult(listed) = self.request(request).await? else {
                return Err(self.broken("the answer is no list of tools".to_owned()));
            };
            tools.extend(listed.tools.into_iter().map(Tool::from));
            cursor = listed.next_cursor.filter(|cursor| !cursor.is_empty());
            if cursor.is_none() || page >= MAX_PAGES || tools.len() >= MAX_TOOLS {
                break;
            }
            self.used().await?;
        }
        if cursor.is_some() || tools.len() > MAX_TOOLS {
            tools.truncate(MAX_TOOLS);
            tracing::warn!(
                mcp.server = self.server.name,
                mcp.tools = tools.len(),
                "left out the tools beyond these"
            );
        }
        let tools: Arc<[Tool]> = tools.into();
        self.tools.put(Arc::clone(&tools), changes);
        Ok(tools)
    }

    /// Asks the guard whether the session may be used.
    async fn used(&self) -> Result<(), McpError> {
        let said = tokio::select! {
            biased;
            why = self.ending() => return Err(self.unused(why).await),
            said = self.guard.used() => said,
        };
        match said {
            Ok(()) => Ok(()),
            Err(GuardError::Unavailable(error)) => Err(error.into()),
            Err(GuardError::Lost(lost)) => {
                self.end(Why::Revoked(lost.clone()));
                self.ended().await;
                Err(lost.into())
            }
        }
    }

    /// Sends a request that the guard has allowed.
    async fn request(&self, request: ClientRequest) -> Result<ServerResult, McpError> {
        let sent = async {
            match self.requests.get() {
                Some(requests) => {
                    request::send(requests, &self.runtime, request, self.server.call_timeout).await
                }
                None => Err(Fault::Broken("the session is not open".into())),
            }
        };
        let fault = tokio::select! {
            biased;
            why = self.ending() => return Err(self.interrupted(why).await),
            answer = sent => match answer {
                Ok(result) => return Ok(result),
                Err(fault) => fault,
            },
        };
        if matches!(fault, Fault::Expired) {
            self.end(Why::Expired);
            self.ended().await;
        }
        Err(fault.of_a_call(&self.server.name))
    }

    /// The error of a call that had not begun when the session had to end.
    async fn unused(&self, why: Why) -> McpError {
        self.ended().await;
        match why {
            Why::Revoked(lost) => lost.into(),
            Why::Closed => self.unopened(CLOSED),
            Why::Expired | Why::Broken(_) | Why::Unopened => {
                Fault::Expired.of_a_call(&self.server.name)
            }
        }
    }

    /// The error of a call under way when the session had to end.
    async fn interrupted(&self, why: Why) -> McpError {
        self.ended().await;
        match why {
            Why::Revoked(lost) => lost.into(),
            Why::Broken(how) => self.broken(how),
            Why::Expired => self.broken("the server has ended the session".to_owned()),
            Why::Closed | Why::Unopened => self.broken(CLOSED.to_owned()),
        }
    }

    fn broken(&self, how: String) -> McpError {
        Fault::Broken(how.into()).of_a_call(&self.server.name)
    }
}

pub(crate) const CLOSED: &str = "the connection was closed";
