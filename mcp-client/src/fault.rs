//! What rmcp's errors mean to a caller.

use std::time::Duration;

use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::error::{BoxError, McpError};
use crate::text::{SHOWN, shown};
use crate::wire::HttpError;

/// How a request failed, or the opening of a session.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server knows no such session.
    Expired,
    /// The server said no.
    Refused { code: i64, message: String },
    /// There was no answer, or none that can be read.
    Broken(BoxError),
    /// No answer in time.
    Timeout(Duration),
}

impl Fault {
    /// The error of a call that was under way.
    pub(crate) fn of_a_call(self, server: &str) -> McpError {
        let server = server.to_owned();
        match self {
            Self::Expired => McpError::Ended { server },
            Self::Refused { code, message } => McpError::Refused {
                server,
                code,
                message,
            },
            Self::Broken(source) => McpError::Broken {
                server,
                source: source.into(),
            },
            Self::Timeout(limit) => McpError::Timeout { server, limit },
        }
    }

    /// The error of a call for which no session could be opened.
    pub(crate) fn of_opening(self, server: &str) -> McpError {
        let server = server.to_owned();
        let source: BoxError = match self {
            // Whether the credentials are to blame is what a caller can do something about.
            Self::Refused {
                code: code @ (401 | 403),
                message,
            } => {
                return McpError::Refused {
                    server,
                    code,
                    message,
                };
            }
            Self::Expired => "the server ended the session at once".into(),
            Self::Refused { code, message } => {
                format!("the server refused: {message} ({code})").into()
            }
            Self::Broken(source) => source,
            Self::Timeout(limit) => format!("not open within {limit:?}").into(),
        };
        McpError::Open {
            server,
            source: source.into(),
        }
    }

    fn said(text: &str) -> Self {
        Self::Broken(shown(text, SHOWN).into())
    }
}

impl From<ErrorData> for Fault {
    fn from(error: ErrorData) -> Self {
        Self::Refused {
            code: error.code.0.into(),
            message: shown(&error.message, SHOWN),
        }
    }
}

impl From<ServiceError> for Fault {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => error.into(),
            ServiceError::TransportSend(error) => error.into(),
            other => Self::said(&other.to_string()),
        }
    }
}

impl From<ClientInitializeError> for Fault {
    fn from(error: ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::TransportError { error, .. } => error.into(),
            ClientInitializeError::JsonRpcError(error) => error.into(),
            ClientInitializeError::ConnectionClosed(_) => {
                Self::Broken("the server closed the connection".into())
            }
            other => Self::said(&other.to_string()),
        }
    }
}

impl From<DynamicTransportError> for Fault {
    fn from(error: DynamicTransportError) -> Self {
        match error.error.downcast::<StreamableHttpError<HttpError>>() {
            Ok(error) => (*error).into(),
            Err(error) => Self::said(&error.to_string()),
        }
    }
}

impl From<StreamableHttpError<HttpError>> for Fault {
    fn from(error: StreamableHttpError<HttpError>) -> Self {
        match error {
            StreamableHttpError::SessionExpired => Self::Expired,
            StreamableHttpError::Client(error) => Self::Broken(Box::new(error)),
            StreamableHttpError::AuthRequired(_) => of_status(401, ""),
            StreamableHttpError::InsufficientScope(_) => of_status(403, ""),
            StreamableHttpError::HttpStatus(error) => of_status(error.status, ""),
            StreamableHttpError::UnexpectedServerResponse(text) => match status_in(&text) {
                Some((status, body)) => of_status(status, body),
                None => Self::said(&text),
            },
            other => Self::said(&other.to_string()),
        }
    }
}

/// A status that says no is a refusal. After one that says that the server, or one before it, has failed, nobody knows
/// what was done. What is said of credentials may hold them, so it is not passed on.
fn of_status(status: u16, body: &str) -> Fault {
    let message = match shown(body, SHOWN) {
        body if body.is_empty() || matches!(status, 401 | 403) => format!("HTTP {status}"),
        body => body,
    };
    if (400..500).contains(&status) {
        Fault::Refused {
            code: status.into(),
            message,
        }
    } else {
        Fault::Broken(message.into())
    }
}

/// rmcp gives the status of most answers only as a text: `HTTP 403 Forbidden: the body`.
fn status_in(text: &str) -> Option<(u16, &str)> {
    let (status, body) = text.strip_prefix("HTTP ")?.split_once(": ")?;
    Some((status.get(..3)?.parse().ok()?, body))
}
