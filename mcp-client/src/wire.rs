//! What a session runs over, from the first byte to the end.

mod handler;
mod headers;
mod http;
mod initialize;
mod stdio;

use std::time::Duration;

use ::http::HeaderName;
use lease_toolpack::{SessionEnd, SessionPayload};
use rmcp::model::ProtocolVersion;
use rmcp::service::{Peer, RoleClient, RunningService};

pub(crate) use handler::Handler;
pub(crate) use headers::headers_of;
use http::HttpWire;
pub(crate) use http::{Events, HttpError, http_client};
use stdio::StdioWire;

use crate::error::BoxError;
use crate::fault::Fault;
use crate::server::{McpServer, McpTransport};

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The most bytes of one message that are read.
const MESSAGE_LIMIT: usize = 8 << 20;

/// A session that has been opened.
pub(crate) type Running = RunningService<RoleClient, Handler>;

/// What requests are sent with.
pub(crate) type Requests = Peer<RoleClient>;

/// The version that is offered. Later ones have no sessions that could be guarded and ended.
const OFFERED: ProtocolVersion = ProtocolVersion::LATEST_WITH_INITIALIZE;

/// How long letting go of what runs over a wire may take.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// The way to one session. Made before anything is sent; [`Self::end`] cleans up whatever was.
#[derive(Debug)]
pub(crate) enum Wire {
    Http(HttpWire),
    Stdio(Box<StdioWire>),
}

impl Wire {
    pub(crate) fn new(server: &McpServer) -> Result<Self, BoxError> {
        match &server.transport {
            McpTransport::Http(http) => Ok(Self::Http(HttpWire::new(&server.name, http)?)),
            McpTransport::Stdio(stdio) => {
                Ok(Self::Stdio(Box::new(StdioWire::new(&server.name, stdio))))
            }
        }
    }

    /// Opens the session.
    ///
    /// # Cancellation
    /// Leaves a half-open session, for [`Self::end`].
    pub(crate) async fn open(&self, handler: Handler) -> Result<Running, Fault> {
        let running = match self {
            Self::Http(wire) => wire.open(handler).await?,
            Self::Stdio(wire) => wire.open(handler).await?,
        };
        match running.peer_info() {
            Some(info) if info.protocol_version.has_initialize() => Ok(running),
            _ => Err(Fault::Broken(
                "the server answered with a version of the protocol that was not offered and has no sessions".into(),
            )),
        }
    }

    /// Returns when it is known, while the session opens, how another could end it; perhaps never.
    pub(crate) async fn named(&self) {
        match self {
            Self::Http(wire) => wire.named().await,
            Self::Stdio(_) => std::future::pending().await,
        }
    }

    /// Returns when what the session runs in has ended, and with it the last that it can still say has come; perhaps never.
    pub(crate) async fn ended(&self) {
        match self {
            Self::Http(_) => std::future::pending().await,
            Self::Stdio(wire) => {
                wire.ended().await;
                tokio::time::sleep(STOP_LIMIT).await;
            }
        }
    }

    /// What another would need to end the session.
    pub(crate) fn payload(&self) -> SessionPayload {
        match self {
            Self::Http(wire) => wire.payload(),
            Self::Stdio(wire) => wire.payload(),
        }
    }

    /// Ends the session, and whatever of it was being opened. `stopping` lets go of what runs over this wire.
    pub(crate) async fn end(&self, stopping: impl Future<Output = ()>) -> SessionEnd {
        match self {
            Self::Http(wire) => wire.end(stopping).await,
            Self::Stdio(wire) => wire.end(stopping).await,
        }
    }
}
