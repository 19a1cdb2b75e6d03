//! The POST of `initialize`, from its head to what it says.
//!
//! rmcp gives the session's id only with an answer that it can use. But the session is there as soon as the answer begins,
//! whatever follows; so this POST is sent, and its answer read, as rmcp would, but in two steps.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::{Body, Client, Response};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage, ServerResult};
use rmcp::transport::streamable_http_client::{
    StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::SseStream;

use super::SESSION_ID;
use super::http::HttpError;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

type HttpResult<T> = Result<T, StreamableHttpError<HttpError>>;

/// Sends the message; returns when the answer begins. Nothing of it leaves before `handing` agrees, which is asked when the
/// connection is there.
pub(super) async fn send(
    client: &Client,
    uri: &str,
    message: &ClientJsonRpcMessage,
    custom: HashMap<HeaderName, HeaderValue>,
    handing: impl FnOnce() -> Result<(), HttpError> + Send + 'static,
) -> HttpResult<Response> {
    let body = serde_json::to_vec(message)?;
    // Said of a stream, whose length is not known otherwise: not every server takes a body in chunks.
    let length = body.len();
    // The head is not sent before the first part of the body is there.
    let body = Body::wrap_stream(stream::once(async move { handing().map(|()| body) }));
    let request = client
        .post(uri)
        .headers(custom.into_iter().collect())
        .header(ACCEPT, format!("{EVENTS}, {JSON}"))
        .header(CONTENT_TYPE, JSON)
        .header(CONTENT_LENGTH, length)
        .body(body);
    let sent = request.send().await;
    sent.map_err(|error| StreamableHttpError::Client(HttpError::request(error)))
}

/// The session that an answer names, if it names one.
///
/// # Errors
/// The name is not one that the protocol allows.
pub(super) fn session(response: &Response) -> Result<Option<Arc<str>>, HttpError> {
    let Some(id) = response.headers().get(SESSION_ID) else {
        return Ok(None);
    };
    match id.to_str() {
        Ok("") => Ok(None),
        Ok(id) if id.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(id.into())),
        _ => Err(HttpError::SessionName),
    }
}

/// Reads what an answer says: the result, or a JSON-RPC error.
pub(super) async fn read(
    response: Response,
    limits: StreamableHttpResponseLimits,
) -> HttpResult<ServerJsonRpcMessage> {
    let status = response.status();
    if !status.is_success() {
        return refusal(response, limits).await;
    }
    let message = if is(&response, EVENTS) {
        first_event(response, limits.max_sse_event_size).await?
    } else if is(&response, JSON) {
        let body = whole(response, limits.max_json_response_size).await?;
        serde_json::from_slice(&body)?
    } else if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Err(unusable(format!(
            "{status} instead of an answer to initialize"
        )));
    } else {
        return Err(StreamableHttpError::UnexpectedContentType(kind(&response)));
    };
    match &message {
        JsonRpcMessage::Error(_) => Ok(message),
        JsonRpcMessage::Response(answer)
            if matches!(answer.result, ServerResult::InitializeResult(_)) =>
        {
            Ok(message)
        }
        _ => Err(unusable("no answer to initialize".to_owned())),
    }
}

/// What a status other than 2xx says: a JSON-RPC error where there is one, else the beginning of its text, which counts for
/// nothing when the server has failed.
async fn refusal(
    response: Response,
    limits: StreamableHttpResponseLimits,
) -> HttpResult<ServerJsonRpcMessage> {
    let status = response.status();
    let failed = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let unauthorised = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let json = is(&response, JSON);
    let body = if unauthorised || (failed && !json) {
        Vec::new()
    } else if json {
        let body = whole(response, limits.max_json_response_size).await;
        let body = body.unwrap_or_default();
        if let Ok(error @ JsonRpcMessage::Error(_)) = serde_json::from_slice(&body) {
            return Ok(error);
        }
        body
    } else {
        beginning(response, limits.max_error_response_size).await
    };
    let text = &body[..body.len().min(limits.max_error_response_size)];
    let text = String::from_utf8_lossy(text);
    Err(unusable(format!("HTTP {status}: {text}")))
}

/// As much of the body as comes, up to the limit or a little more.
async fn beginning(mut response: Response, limit: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < limit
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk);
    }
    body
}

/// The body, if it keeps to the limit.
async fn whole(mut response: Response, limit: usize) -> HttpResult<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| StreamableHttpError::Client(HttpError::request(error)))?
    {
        if chunk.len() > limit - body.len() {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The first event that is an answer, if it comes within the limit. What the server says after it is not heard.
async fn first_event(response: Response, limit: usize) -> HttpResult<ServerJsonRpcMessage> {
    let mut left = limit;
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(HttpError::request)?;
        left = left.checked_sub(chunk.len()).ok_or(HttpError::TooLong)?;
        Ok::<_, HttpError>(chunk)
    });
    let events = SseStream::from_bytes_stream(bytes).boxed();
    let (message, _) = StreamableHttpPostResponse::Sse(events, None)
        .expect_initialized()
        .await?;
    Ok(message)
}

fn is(response: &Response, expected: &str) -> bool {
    kind(response).is_some_and(|kind| {
        let essence = kind.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case(expected)
    })
}

fn kind(response: &Response) -> Option<String> {
    let kind = response.headers().get(CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(kind.as_bytes()).into())
}

fn unusable(text: String) -> StreamableHttpError<HttpError> {
    StreamableHttpError::UnexpectedServerResponse(text.into())
}
