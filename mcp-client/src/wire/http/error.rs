//! Why a request gave nothing.

use http::HeaderName;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::error::BoxError;

/// Why a request was not sent, or not answered. Names no address and no header's value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("the request failed")]
    Request(#[source] reqwest::Error),
    #[error("no headers for the request")]
    Headers(#[source] BoxError),
    #[error("header {0} belongs to the protocol and cannot be given")]
    Reserved(HeaderName),
    #[error("header {0} is given twice")]
    Twice(HeaderName),
    #[error("the session's id is no header's value")]
    SessionId,
    #[error("the server named a session by what is no visible ASCII, so nobody can use or end it")]
    SessionName,
    #[error("the answer is too long")]
    TooLong,
    #[error("the session is being ended")]
    Stopped,
}

impl HttpError {
    pub(crate) fn request(error: reqwest::Error) -> Self {
        Self::Request(error.without_url())
    }
}

/// An error of the client that sends, as one of this wire.
pub(super) fn widened(
    error: StreamableHttpError<reqwest::Error>,
) -> StreamableHttpError<HttpError> {
    use StreamableHttpError as E;
    match error {
        E::Client(error) => E::Client(HttpError::request(error)),
        E::Sse(error) => E::Sse(error),
        E::Io(error) => E::Io(error),
        E::HttpStatus(error) => E::HttpStatus(error),
        E::UnexpectedServerResponse(text) => E::UnexpectedServerResponse(text),
        E::ResponseBodyTooLarge { max_size } => E::ResponseBodyTooLarge { max_size },
        E::UnexpectedContentType(kind) => E::UnexpectedContentType(kind),
        E::ServerDoesNotSupportSse => E::ServerDoesNotSupportSse,
        E::AuthRequired(error) => E::AuthRequired(error),
        E::InsufficientScope(error) => E::InsufficientScope(error),
        E::SessionExpired => E::SessionExpired,
        other => E::UnexpectedServerResponse(other.to_string().into()),
    }
}
