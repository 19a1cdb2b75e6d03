//! Streamable HTTP: the requests of one session, and the DELETE that ends it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use lease_toolpack::{SessionEnd, SessionPayload};
use rmcp::ServiceExt;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    Handler, MESSAGE_LIMIT, PROTOCOL_VERSION, Running, STOP_LIMIT, headers_of, protocol_version,
};
use crate::delete;
use crate::error::BoxError;
use crate::fault::{Fault, status_in};
use crate::server::HttpServer;
use crate::text::{SHOWN, shown};
use crate::tls;

/// How long a server may take to be connected to.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long an ending session waits for an answer to `initialize` that is still to come: only it names the session that
/// the DELETE has to end.
const INITIALIZE_LIMIT: Duration = Duration::from_secs(2);

/// How long that answer is listened for after nobody waits any more: a session that it names after all is ended too.
const LATE_LIMIT: Duration = Duration::from_secs(60);

/// How long the DELETE may take.
const DELETE_LIMIT: Duration = Duration::from_secs(5);

/// More than this many calls at once wait for each other.
const MAX_REQUESTS: usize = 256;

type Custom = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type HttpResult<T> = Result<T, StreamableHttpError<HttpError>>;

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
    #[error("the session is being ended")]
    Stopped,
}

impl HttpError {
    pub(crate) fn request(error: reqwest::Error) -> Self {
        Self::Request(error.without_url())
    }

    /// Whether it is certain that the server has got nothing.
    fn never_sent(&self) -> bool {
        match self {
            Self::Request(error) => error.is_connect() || error.is_builder(),
            _ => true,
        }
    }
}

/// The HTTP client of this process. It keeps no connection for later, follows no redirect (which would carry the
/// credentials elsewhere), and has no time limit of its own, for that would end the stream of events too.
pub(crate) fn http_client() -> Result<reqwest::Client, BoxError> {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return Ok(client.clone());
    }
    tls::install_provider();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(0)
        .connect_timeout(CONNECT_LIMIT)
        .build()?;
    Ok(CLIENT.get_or_init(|| client).clone())
}

/// One session's requests. rmcp sends through it, so it sees what rmcp does not tell: the session's id from the first
/// moment on, and how the DELETE ended.
#[derive(Clone)]
pub(crate) struct HttpWire(Arc<Shared>);

struct Shared {
    name: String,
    server: HttpServer,
    client: reqwest::Client,
    /// Nothing more is sent but the DELETE.
    stopped: CancellationToken,
    seen: Mutex<Seen>,
}

/// What the requests have shown.
#[derive(Default)]
struct Seen {
    /// The first one wins.
    id: Option<Arc<str>>,
    /// The agreed version of the protocol.
    version: Option<HeaderValue>,
    /// `initialize`, which runs on when nobody waits for it any more.
    initialize: Option<JoinHandle<()>>,
    /// `initialize` was sent, and whether it opened a session is not known.
    unanswered: bool,
    /// The server has said that there is no such session.
    gone: bool,
    /// Why `notifications/initialized` failed, which rmcp reports as a closed channel.
    failure: Option<Fault>,
}

impl fmt::Debug for HttpWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpWire").field(&self.0.server).finish()
    }
}

impl HttpWire {
    pub(crate) fn new(name: &str, server: &HttpServer) -> Result<Self, BoxError> {
        Ok(Self(Arc::new(Shared {
            name: name.to_owned(),
            server: server.clone(),
            client: http_client()?,
            stopped: CancellationToken::new(),
            seen: Mutex::default(),
        })))
    }

    /// Opens the session. rmcp's own cure for an ended one, to open another in silence, is off: that one would stand
    /// under no guard.
    pub(crate) async fn open(&self, handler: Handler) -> Result<Running, Fault> {
        let config = StreamableHttpClientTransportConfig::with_uri(self.0.server.url.as_str())
            .reinit_on_expired_session(false)
            .max_concurrent_requests(MAX_REQUESTS)
            .max_sse_event_size(MESSAGE_LIMIT)
            .max_json_response_size(MESSAGE_LIMIT);
        let transport = StreamableHttpClientTransport::with_client(self.clone(), config);
        let opened = handler.serve(transport).await;
        opened.map_err(|error| self.seen().failure.take().unwrap_or_else(|| error.into()))
    }

    pub(crate) fn payload(&self) -> SessionPayload {
        let mut payload = SessionPayload::from_iter([
            ("transport".to_owned(), "http".into()),
            ("endpoint".to_owned(), self.0.server.endpoint().into()),
        ]);
        if let Some(id) = &self.seen().id {
            payload.insert("sessionId".to_owned(), id.as_ref().into());
        }
        payload
    }

    /// Ends the session: first what it still sends, then, by a DELETE, the session itself.
    pub(crate) async fn end(&self, stopping: impl Future<Output = ()>) -> SessionEnd {
        self.0.stopped.cancel();
        // Whether it stops in time changes nothing: its requests have ended.
        let _ = tokio::time::timeout(STOP_LIMIT, stopping).await;
        self.settle_initialize().await;
        let (id, version, gone, unanswered) = {
            let seen = self.seen();
            (
                seen.id.clone(),
                seen.version.clone(),
                seen.gone,
                seen.unanswered,
            )
        };
        match id {
            _ if gone => SessionEnd::Gone,
            Some(id) => {
                self.delete(&id, version.unwrap_or_else(protocol_version))
                    .await
            }
            None if unanswered => SessionEnd::Unknown(
                "initialize was sent, and it is not known whether it opened a session".to_owned(),
            ),
            None => SessionEnd::Gone,
        }
    }

    async fn delete(&self, id: &str, version: HeaderValue) -> SessionEnd {
        let name = &self.0.name;
        let sent = delete::send(&self.0.client, &self.0.server, id, version);
        let doubt = match tokio::time::timeout(DELETE_LIMIT, sent).await {
            Ok(Ok(status)) if delete::says_gone(status) => {
                tracing::info!(
                    mcp.server = name,
                    http.status = status.as_u16(),
                    "ended the session"
                );
                return SessionEnd::Gone;
            }
            Ok(Ok(status)) => format!("DELETE was answered with {status}"),
            Ok(Err(error)) => format!("DELETE failed: {}", chain(&error)),
            Err(_) => format!("DELETE was not answered within {DELETE_LIMIT:?}"),
        };
        tracing::warn!(mcp.server = name, "the session may still be there: {doubt}");
        SessionEnd::Unknown(doubt)
    }

    /// Sends `initialize` in a task of its own: dropped on the way, it would leave a session that nobody can name.
    async fn initialize(
        &self,
        message: ClientJsonRpcMessage,
        uri: Arc<str>,
        custom: Custom,
        limits: StreamableHttpResponseLimits,
    ) -> HttpResult<StreamableHttpPostResponse> {
        let (answer, answered) = oneshot::channel();
        let wire = self.clone();
        let id = request_id(&message);
        let task = tokio::spawn(async move {
            let reply = match wire.headers(custom).await {
                Ok(headers) => {
                    wire.seen().unanswered = true;
                    wire.send(uri, message, None, headers, limits).await
                }
                Err(error) => Err(StreamableHttpError::Client(error)),
            };
            wire.note_initialize(&reply);
            let _ = answer.send(reply);
        });
        self.seen().initialize = Some(task);
        let reply = self.unless_stopped(async move {
            answered
                .await
                .unwrap_or(Err(StreamableHttpError::TransportChannelClosed))
        });
        correlate(reply.await?, id, false)
    }

    fn note_initialize(&self, reply: &HttpResult<StreamableHttpPostResponse>) {
        let mut seen = self.seen();
        match reply {
            Ok(
                StreamableHttpPostResponse::Json(_, Some(id))
                | StreamableHttpPostResponse::Sse(_, Some(id)),
            ) => {
                seen.id.get_or_insert_with(|| id.as_str().into());
                seen.unanswered = false;
            }
            Ok(_) => seen.unanswered = false,
            Err(error) => seen.unanswered = !opened_nothing(error),
        }
    }

    async fn settle_initialize(&self) {
        let Some(mut task) = self.seen().initialize.take() else {
            return;
        };
        if tokio::time::timeout(INITIALIZE_LIMIT, &mut task)
            .await
            .is_ok()
        {
            return;
        }
        let wire = self.clone();
        tokio::spawn(async move {
            if tokio::time::timeout(LATE_LIMIT, &mut task).await.is_err() {
                task.abort();
                return;
            }
            let id = wire.seen().id.clone();
            if let Some(id) = id {
                wire.delete(&id, protocol_version()).await;
            }
        });
    }

    async fn send(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: Custom,
        limits: StreamableHttpResponseLimits,
    ) -> HttpResult<StreamableHttpPostResponse> {
        let client = &self.0.client;
        client
            .post_message_with_response_limits(uri, message, session, None, headers, limits)
            .await
            .map_err(widened)
    }

    /// What the protocol sets, and what the server's source of headers gives at this moment.
    async fn headers(&self, mut custom: Custom) -> Result<Custom, HttpError> {
        let headers = headers_of(&self.0.server).await?;
        custom.extend(
            headers
                .into_iter()
                .filter_map(|(name, value)| Some((name?, value))),
        );
        Ok(custom)
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = HttpResult<T>>) -> HttpResult<T> {
        tokio::select! {
            biased;
            () = self.0.stopped.cancelled() => Err(StreamableHttpError::Client(HttpError::Stopped)),
            done = work => done,
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamableHttpClient for HttpWire {
    type Error = HttpError;

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        custom: Custom,
        limits: StreamableHttpResponseLimits,
    ) -> HttpResult<StreamableHttpPostResponse> {
        if is_initialize(&message) {
            return self.initialize(message, uri, custom, limits).await;
        }
        if let Some(version) = custom.get(&PROTOCOL_VERSION) {
            self.seen().version = Some(version.clone());
        }
        let (id, initialized) = (request_id(&message), is_initialized(&message));
        let attached = session.is_some();
        let reply = self
            .unless_stopped(async {
                let headers = self
                    .headers(custom)
                    .await
                    .map_err(StreamableHttpError::Client)?;
                self.send(uri, message, session, headers, limits).await
            })
            .await;
        match reply {
            Ok(reply) => correlate(reply, id, attached),
            Err(StreamableHttpError::SessionExpired) => {
                self.seen().gone = true;
                Err(StreamableHttpError::SessionExpired)
            }
            Err(error) if initialized => {
                self.seen().failure = Some(error.into());
                Err(StreamableHttpError::TransportChannelClosed)
            }
            Err(error) => Err(error),
        }
    }

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        custom: Custom,
    ) -> HttpResult<StreamableHttpPostResponse> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, auth, custom, limits)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        custom: Custom,
        limit: usize,
    ) -> HttpResult<Events> {
        if !self.0.server.event_stream {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let stream = self
            .unless_stopped(async {
                let headers = self
                    .headers(custom)
                    .await
                    .map_err(StreamableHttpError::Client)?;
                let client = &self.0.client;
                client
                    .get_stream_with_max_sse_event_size(
                        uri, session, last_event, None, headers, limit,
                    )
                    .await
                    .map_err(widened)
            })
            .await;
        match stream {
            // It will not be otherwise the next time; rmcp would ask again for ever.
            Err(StreamableHttpError::Client(HttpError::Request(error)))
                if error
                    .status()
                    .is_some_and(|status| status.is_client_error()) =>
            {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            stream => stream,
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        custom: Custom,
    ) -> HttpResult<Events> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session,
            last_event,
            auth,
            custom,
            MESSAGE_LIMIT,
        )
        .await
    }

    /// Does nothing: rmcp sends none for a half-open session, and keeps the outcome for itself. See [`HttpWire::end`].
    async fn delete_session(
        &self,
        _: Arc<str>,
        _: Arc<str>,
        _: Option<String>,
        _: Custom,
    ) -> HttpResult<()> {
        Ok(())
    }
}

/// The reply to a request, as one that rmcp can tell whose it is; else the call would wait for ever.
///
/// An error without an id is what some servers answer when they do not know the session. One with an id that is not the
/// request's is still the reply to it, for it came as its answer.
fn correlate(
    reply: StreamableHttpPostResponse,
    request: Option<RequestId>,
    attached: bool,
) -> HttpResult<StreamableHttpPostResponse> {
    match (reply, request) {
        (StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session), Some(id)) => {
            if error.id.is_none() && attached {
                return Err(StreamableHttpError::SessionExpired);
            }
            let reply = ServerJsonRpcMessage::error(error.error, Some(id));
            Ok(StreamableHttpPostResponse::Json(reply, session))
        }
        (reply, _) => Ok(reply),
    }
}

/// Whether `initialize`, having failed so, has certainly opened no session.
fn opened_nothing(error: &StreamableHttpError<HttpError>) -> bool {
    match error {
        StreamableHttpError::Client(error) => error.never_sent(),
        StreamableHttpError::UnexpectedServerResponse(text) => status_in(text).is_some(),
        StreamableHttpError::HttpStatus(_)
        | StreamableHttpError::AuthRequired(_)
        | StreamableHttpError::InsufficientScope(_) => true,
        _ => false,
    }
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::InitializeRequest(_)))
}

fn is_initialized(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Notification(notification)
        if matches!(notification.notification, ClientNotification::InitializedNotification(_)))
}

/// An error of the client that sends, as one of this wire.
fn widened(error: StreamableHttpError<reqwest::Error>) -> StreamableHttpError<HttpError> {
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

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    shown(&line, SHOWN)
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
    use rmcp::transport::streamable_http_client::{
        StreamableHttpError, StreamableHttpPostResponse,
    };

    use super::correlate;

    /// What becomes of an error with this id, as the direct answer to request 7.
    fn check(id: Option<RequestId>, attached: bool) -> Option<RequestId> {
        let error = ServerJsonRpcMessage::error(ErrorData::invalid_request("no", None), id);
        let reply = StreamableHttpPostResponse::Json(error, None);
        match correlate(reply, Some(RequestId::Number(7)), attached) {
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), _)) => error.id,
            Err(StreamableHttpError::SessionExpired) => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_error_leaves_its_request_waiting() {
        let seven = Some(RequestId::Number(7));
        assert_eq!(check(seven.clone(), true), seven);
        assert_eq!(
            check(Some(RequestId::String("server-error".into())), true),
            seven
        );
        assert_eq!(check(None, true), None);
        assert_eq!(check(None, false), seven);
    }
}
