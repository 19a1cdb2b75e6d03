//! The handler `mcp`: what a revocation does to a session.

use futures_util::future::BoxFuture;
use lease_shared::{HandlerError, LeaseHandler, Revocation, SlotReturn, in_full};
use lease_toolpack::SessionEnd;
use mcp_client::{McpTransport, end_session};

use super::tools::{ToolError, ToolName, Tools};
use crate::guard::{Ended, Tracker};
use crate::metrics;

/// What the payload of a lease of type `mcp` says.
pub(crate) const TOOL: &str = "tool";
pub(crate) const TRANSPORT: &str = "transport";
pub(crate) const ENDPOINT: &str = "endpoint";
pub(crate) const SESSION: &str = "sessionId";
pub(crate) const VERSION: &str = "protocolVersion";

/// Ends the session of a revoked lease.
///
/// A session of this process is closed if it is still under *that* lease. One of a process that is dead, or cannot be
/// reached, and that lives in a server of its own, is ended by a DELETE with what the tool's document says now; if that
/// points elsewhere by now nothing is sent, for the other server knows nothing of the session, and its credentials are
/// none of the old one's business.
#[derive(Debug)]
pub(crate) struct McpHandler {
    pub(crate) tools: Tools,
    pub(crate) tracker: Tracker,
}

impl LeaseHandler for McpHandler {
    /// A browser that runs on is a slot in use.
    fn slot_return(&self) -> SlotReturn {
        SlotReturn::AfterCleanup
    }

    fn on_revoked<'a>(
        &'a self,
        revocation: &'a Revocation,
    ) -> BoxFuture<'a, Result<(), HandlerError>> {
        Box::pin(async move {
            let is_http = revocation
                .payload
                .get_str(TRANSPORT)
                .is_ok_and(|it| it == "http");
            let count = |outcome| {
                if is_http {
                    metrics::mcp_delete(outcome);
                }
            };
            match self.tracker.end(revocation).await {
                Some(Ended::Closed(SessionEnd::Gone)) => {
                    count("gone");
                    Ok(())
                }
                // The next try finds no session here, and sends the DELETE by itself.
                Some(Ended::Closed(SessionEnd::Unknown(problem))) => {
                    count("unknown");
                    Err(problem.into())
                }
                Some(Ended::Dropped) | None => self.end_elsewhere(revocation).await,
            }
        })
    }
}

impl McpHandler {
    async fn end_elsewhere(&self, revocation: &Revocation) -> Result<(), HandlerError> {
        let payload = &revocation.payload;
        let text = |field| payload.get_str(field).ok();
        // Without an id there was no session yet, or none that could be named; a child ended with its process.
        let (Some(tool), Some("http"), Some(endpoint), Some(session)) =
            (text(TOOL), text(TRANSPORT), text(ENDPOINT), text(SESSION))
        else {
            return Ok(());
        };
        let nothing_sent = |why: &str| {
            tracing::warn!(
                lease.token = %revocation.token,
                mcp.tool = tool,
                mcp.endpoint = endpoint,
                "sent no DELETE for a revoked session: {why}"
            );
            metrics::mcp_delete("omitted");
            Ok(())
        };
        let found = self
            .tools
            .find(&revocation.tenancy, &ToolName::new(tool)?)
            .await;
        let server = match found {
            Ok(tool) => tool.server,
            Err(ToolError::Undefined { .. }) => {
                return nothing_sent("its tool is not defined any more");
            }
            Err(error) => return Err(in_full(&error).into()),
        };
        let server = match server.transport {
            McpTransport::Http(server) if server.endpoint() == endpoint => server,
            McpTransport::Http(_) => {
                return nothing_sent("its tool points to another endpoint now");
            }
            McpTransport::Stdio(_) => return nothing_sent("its tool is no HTTP server any more"),
        };
        let ended = end_session(&server, session, text(VERSION)).await;
        metrics::mcp_delete(if ended.is_ok() { "gone" } else { "unknown" });
        if ended.is_ok() {
            tracing::info!(
                lease.token = %revocation.token,
                mcp.tool = tool,
                mcp.endpoint = endpoint,
                "ended the session of a revoked lease with a DELETE"
            );
        }
        ended
    }
}
