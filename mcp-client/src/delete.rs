//! The DELETE that ends a session, whoever opened it.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};

use crate::error::BoxError;
use crate::server::HttpServer;
use crate::wire::{self, HttpError};

/// How long the DELETE of a session that another process opened may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Ends the session `id` at `server`, whoever opened it: sends the DELETE with the server's own headers.
///
/// `version` is the version of the protocol that was agreed on, if that is known. A server refuses another with 400, which
/// would say that the session is gone; where none is named it has to assume one.
///
/// # Errors
/// It may still be there: no answer, or none that says that it is gone.
pub async fn end_session(
    server: &HttpServer,
    id: &str,
    version: Option<&str>,
) -> Result<(), BoxError> {
    let client = wire::http_client()?;
    let version = version.map(HeaderValue::from_str).transpose();
    let version = version.map_err(|_| "the protocol's version is no header's value")?;
    let sent = send(&client, server, id, version);
    let status = tokio::time::timeout(LIMIT, sent)
        .await
        .map_err(|_| format!("DELETE was not answered within {LIMIT:?}"))??;
    if says_gone(status) {
        Ok(())
    } else {
        Err(format!("DELETE was answered with {status}").into())
    }
}

/// Whether the answer to a DELETE means that there is nothing more to do: it is gone, it was gone already, or the server
/// lets no client end a session.
pub(crate) fn says_gone(status: StatusCode) -> bool {
    status.is_success()
        || matches!(
            status,
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
        )
}

/// Sends the DELETE of the session `id`, with headers asked for now.
pub(crate) async fn send(
    client: &reqwest::Client,
    server: &HttpServer,
    id: &str,
    version: Option<HeaderValue>,
) -> Result<StatusCode, HttpError> {
    let mut headers: HeaderMap = wire::headers_of(server).await?;
    let mut id = HeaderValue::from_str(id).map_err(|_| HttpError::SessionId)?;
    id.set_sensitive(true);
    headers.insert(wire::SESSION_ID, id);
    if let Some(version) = version {
        headers.insert(wire::PROTOCOL_VERSION, version);
    }
    let request = client.delete(server.url.clone()).headers(headers);
    let response = request.send().await.map_err(HttpError::request)?;
    Ok(response.status())
}
