//! Tools at MCP servers, for the users of tenants: each user's session at a tool is under a lease.
//!
//! A tool is a document at `_vance/config/tools/<name>.yaml`. The lease belongs to the *session*: it is acquired before the
//! session is opened, checked at every call, and given back when the session has been closed. The session ends with its
//! lease: when it has not been used for the lease's time to live, when an operator revokes it, when its pod dies.

mod document;
mod handler;
mod pool;
mod tools;

use std::sync::Arc;

use lease_shared::definition::ConfigDocuments;
use lease_shared::{AcquireError, InvalidName, LeaseService, LeaseType, PodId, Tenancy, in_full};
use mcp_client::McpError;
use serde_json::{Map, Value};

pub(crate) use pool::Pool;
pub use tools::{ToolError, ToolName, check_tool};

use crate::guard::{Holds, Tracker};
use crate::handlers::{HandlerRegistry, InvalidHandler};
use crate::secrets::Secrets;
use handler::McpHandler;
use tools::Tools;

/// What a brain needs for tools at MCP servers.
#[derive(Debug, Clone)]
pub struct McpSettings {
    /// Where the secrets are that tool documents name.
    pub secrets: Secrets,
    /// May the documents of tenants and projects name commands to execute?
    pub project_commands: bool,
}

/// Tools at MCP servers, before there is a pod to hold leases.
#[derive(Debug)]
pub(crate) struct Mcp {
    tools: Tools,
    tracker: Tracker,
}

impl Mcp {
    pub(crate) fn new(settings: McpSettings, documents: ConfigDocuments) -> Self {
        let tools = Tools {
            documents,
            secrets: settings.secrets,
            project_commands: settings.project_commands,
        };
        Self {
            tools,
            tracker: Tracker::default(),
        }
    }

    pub(crate) fn register(&self, handlers: &mut HandlerRegistry) -> Result<(), InvalidHandler> {
        let handler = McpHandler {
            tools: self.tools.clone(),
            tracker: self.tracker.clone(),
        };
        handlers.register(lease_type()?, Arc::new(handler))
    }

    pub(crate) fn pool(self, leases: LeaseService, pod: PodId) -> Result<Pool, InvalidName> {
        let lease_type = lease_type()?;
        Ok(Pool::new(self.tools, lease_type, leases, pod, self.tracker))
    }
}

/// What the holder of a session at that tool is called.
pub fn holder_ref(tool: &ToolName) -> String {
    format!("mcp {tool}")
}

/// The type of the leases of sessions.
fn lease_type() -> Result<LeaseType, InvalidName> {
    LeaseType::new("mcp")
}

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The tool cannot be used as it is defined.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The session, or the call, did not come about.
    #[error(transparent)]
    Mcp(#[from] McpError),
    /// The pod is shutting down.
    #[error("this pod is shutting down: ask another")]
    Draining,
}

impl CallError {
    /// Why no lease was given, if that is the cause.
    pub(crate) fn acquire(&self) -> Option<&AcquireError> {
        match self {
            Self::Mcp(McpError::Unavailable(unavailable)) => unavailable.0.downcast_ref(),
            _ => None,
        }
    }
}

impl Pool {
    /// The tools that a server offers to someone.
    pub(crate) async fn tools(
        &self,
        tenancy: &Tenancy,
        name: &ToolName,
    ) -> Result<Vec<mcp_client::Tool>, CallError> {
        let pooled = self.connection(tenancy, name).await?;
        let pooled = pooled.ok_or(CallError::Draining)?;
        Ok(pooled.in_use(pooled.connection.tools()).await?)
    }

    /// What a tool of a server gives to someone.
    pub(crate) async fn call(
        &self,
        tenancy: &Tenancy,
        name: &ToolName,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, CallError> {
        let pooled = self.connection(tenancy, name).await?;
        let pooled = pooled.ok_or(CallError::Draining)?;
        let calling = pooled.connection.call(tool, arguments);
        let called = pooled.in_use(calling).await;
        if let Err(error) = &called {
            tracing::info!(
                mcp.tool = %name,
                tenant.id = tenancy.tenant(),
                error = in_full(error),
                "a call at an MCP server gave no result"
            );
        }
        Ok(called?)
    }

    /// Ends someone's session at a server; false if there was none.
    pub(crate) async fn end(&self, tenancy: &Tenancy, name: &ToolName) -> bool {
        let Some(pooled) = self.take(tenancy, name) else {
            return false;
        };
        let open = pooled.holds() != Holds::Nothing;
        pooled.connection.close().await;
        open
    }
}
