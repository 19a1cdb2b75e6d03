//! Tools at MCP servers, for whoever acts for a tenant's users.

use axum::Json;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use lease_shared::{AcquireError, Tenancy, in_full};
use mcp_client::McpError;

use super::Served;
use super::problem::{Body, Refusal};
use crate::api::{OfferedTool, Problem, SessionClosed, ToolCall, ToolReply, ToolsCall, ToolsReply};
use crate::mcp::{CallError, Pool, ToolError, ToolName};

pub(crate) async fn tools(
    served: Served,
    tool: Result<Path<String>, PathRejection>,
    Body(call): Body<ToolsCall>,
) -> Result<Json<ToolsReply>, Refusal> {
    let pool = served.pool()?;
    let tool = named(tool)?;
    let tenancy = Tenancy::new(call.tenant, call.project, call.user)?;
    let offered = pool.tools(&tenancy, &tool).await?;
    let offered = offered.into_iter().map(|tool| OfferedTool {
        name: tool.name,
        description: tool.description,
        input_schema: tool.input_schema,
    });
    Ok(Json(ToolsReply {
        tools: offered.collect(),
    }))
}

/// A caller that goes away cancels its call; a session that was being opened for it alone is ended again.
pub(crate) async fn call(
    served: Served,
    tool: Result<Path<String>, PathRejection>,
    Body(call): Body<ToolCall>,
) -> Result<Json<ToolReply>, Refusal> {
    let pool = served.pool()?;
    let tool = named(tool)?;
    let tenancy = Tenancy::new(call.tenant, call.project, call.user)?;
    let result = pool
        .call(&tenancy, &tool, &call.name, call.arguments)
        .await?;
    Ok(Json(ToolReply { result }))
}

pub(crate) async fn close(
    served: Served,
    tool: Result<Path<String>, PathRejection>,
    Body(call): Body<ToolsCall>,
) -> Result<Json<SessionClosed>, Refusal> {
    let pool = served.pool()?;
    let tool = named(tool)?;
    let tenancy = Tenancy::new(call.tenant, call.project, call.user)?;
    let closed = pool.end(&tenancy, &tool).await;
    Ok(Json(SessionClosed { closed }))
}

fn named(tool: Result<Path<String>, PathRejection>) -> Result<ToolName, Refusal> {
    let Path(tool) = tool.map_err(|rejection| {
        let status = rejection.status();
        Refusal::new(status, Problem::BAD_REQUEST, rejection.body_text())
    })?;
    Ok(ToolName::new(&tool)?)
}

impl Served {
    fn pool(&self) -> Result<&Pool, Refusal> {
        self.mcp.as_ref().ok_or_else(|| {
            Refusal::not_found(
                Problem::NO_TOOLS,
                "this brain offers no tools at MCP servers",
            )
        })
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        let (status, code) = answer(&error);
        Self::new(status, code, in_full(&error))
    }
}

/// Busy, revoked and unavailable are three different things to a caller: wait, begin anew, mend.
fn answer(error: &CallError) -> (StatusCode, &'static str) {
    if let Some(error) = error.acquire() {
        let status = match error {
            AcquireError::Busy(_) => StatusCode::CONFLICT,
            AcquireError::Undefined { .. } => StatusCode::NOT_FOUND,
            AcquireError::Invalid(_) | AcquireError::UnknownType(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            AcquireError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        return (status, error.code());
    }
    match error {
        CallError::Draining => (StatusCode::SERVICE_UNAVAILABLE, Problem::DRAINING),
        CallError::Tool(ToolError::Undefined { .. }) => (StatusCode::NOT_FOUND, Problem::UNDEFINED),
        CallError::Tool(ToolError::Broken(_)) => {
            (StatusCode::UNPROCESSABLE_ENTITY, Problem::INVALID)
        }
        CallError::Tool(ToolError::Unavailable(_)) | CallError::Mcp(McpError::Unavailable(_)) => {
            (StatusCode::SERVICE_UNAVAILABLE, Problem::UNAVAILABLE)
        }
        CallError::Mcp(error) => match error {
            McpError::Revoked(_) => (StatusCode::GONE, Problem::LOST),
            McpError::Open { .. } => (StatusCode::BAD_GATEWAY, Problem::SERVER_UNAVAILABLE),
            McpError::Ended { .. } => (StatusCode::BAD_GATEWAY, Problem::SESSION_ENDED),
            McpError::Refused { .. } => (StatusCode::BAD_GATEWAY, Problem::CALL_REFUSED),
            McpError::Timeout { .. } => (StatusCode::GATEWAY_TIMEOUT, Problem::CALL_UNKNOWN),
            _ => (StatusCode::BAD_GATEWAY, Problem::CALL_UNKNOWN),
        },
    }
}
