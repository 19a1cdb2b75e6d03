//! The headers of one request, asked for at the moment of use.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};

use super::{HttpError, PROTOCOL_VERSION, SESSION_ID};
use crate::server::HttpServer;

/// Those that the protocol itself sets.
const RESERVED: [HeaderName; 5] = [
    ACCEPT,
    CONTENT_TYPE,
    SESSION_ID,
    PROTOCOL_VERSION,
    HeaderName::from_static("last-event-id"),
];

/// Asks for the headers of one request.
pub(crate) async fn headers_of(server: &HttpServer) -> Result<HeaderMap, HttpError> {
    let mut headers = (server.headers)().await.map_err(HttpError::Headers)?;
    if let Some(name) = RESERVED.iter().find(|name| headers.contains_key(*name)) {
        return Err(HttpError::Reserved(name.clone()));
    }
    if let Some(name) = headers
        .keys()
        .find(|name| headers.get_all(*name).iter().count() > 1)
    {
        return Err(HttpError::Twice(name.clone()));
    }
    for value in headers.values_mut() {
        value.set_sensitive(true);
    }
    Ok(headers)
}
