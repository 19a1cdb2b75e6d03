//! Streamable HTTP: the requests of one session, and the DELETE that ends it.

mod error;
mod messages;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use lease_toolpack::{SessionEnd, SessionPayload};
use rmcp::ServiceExt;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use error::HttpError;
use error::widened;
use messages::{agreed_version, correlate, is_initialize, is_initialized, request_id};

use super::{Handler, MESSAGE_LIMIT, Running, STOP_LIMIT, headers_of, initialize};
use crate::delete;
use crate::error::BoxError;
use crate::fault::Fault;
use crate::late;
use crate::secrets::Secrets;
use crate::server::HttpServer;
use crate::text::{SHOWN, shown};
use crate::tls;

/// How long a server may take to be connected to. No longer than an ending session waits for it.
const CONNECT_LIMIT: Duration = INITIALIZE_LIMIT;

/// How long an ending session waits for an answer to `initialize` that is still to come: only it names the session that
/// the DELETE has to end.
const INITIALIZE_LIMIT: Duration = Duration::from_secs(3);

/// How long an ending session waits for the rest of an answer that has begun: the id is known then, and the rest adds only
/// the version that the DELETE names.
const REST_LIMIT: Duration = Duration::from_secs(1);

/// How long that answer is listened for after nobody waits any more: a session that it names after all is ended too.
const LATE_LIMIT: Duration = Duration::from_secs(60);

/// How long it is waited before the DELETE of such a session is tried again.
const LATE_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// How long the DELETE may take.
const DELETE_LIMIT: Duration = Duration::from_secs(5);

/// More than this many calls at once wait for each other.
const MAX_REQUESTS: usize = 256;

/// The doubts that an ending session can leave without a DELETE.
const UNANSWERED: &str = "initialize was sent, and it is not known whether it opened a session";
const UNNAMED: &str = "initialize opened a session whose id cannot be used, so nothing can end it";

type Custom = HashMap<HeaderName, HeaderValue>;
/// The events that a server sends.
pub(crate) type Events = BoxStream<'static, Result<Sse, SseError>>;
type HttpResult<T> = Result<T, StreamableHttpError<HttpError>>;

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
    /// The server has named a session, in an answer that can be used.
    named: CancellationToken,
    seen: Mutex<Seen>,
}

/// What the requests have shown.
#[derive(Default)]
struct Seen {
    id: Option<Arc<str>>,
    /// The agreed version of the protocol.
    version: Option<HeaderValue>,
    /// `initialize`, which runs on when nobody waits for it any more.
    initialize: Option<JoinHandle<()>>,
    /// Why it is not known whether there is a session, or which.
    doubt: Option<&'static str>,
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
            named: CancellationToken::new(),
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

    /// Returns when the session is there and could be ended by another.
    pub(crate) async fn named(&self) {
        self.0.named.cancelled().await;
    }

    pub(crate) fn payload(&self) -> SessionPayload {
        let mut payload = SessionPayload::from_iter([
            ("transport".to_owned(), "http".into()),
            ("endpoint".to_owned(), self.0.server.endpoint().into()),
        ]);
        let seen = self.seen();
        if let Some(id) = &seen.id {
            payload.insert("sessionId".to_owned(), id.as_ref().into());
        }
        if let Some(version) = seen.version.as_ref().and_then(|v| v.to_str().ok()) {
            payload.insert("protocolVersion".to_owned(), version.into());
        }
        payload
    }

    /// Ends the session: first what it still sends, then, by a DELETE, the session itself.
    pub(crate) async fn end(&self, stopping: impl Future<Output = ()>) -> SessionEnd {
        self.0.stopped.cancel();
        // Whether it stops in time changes nothing: its requests have ended.
        let _ = tokio::time::timeout(STOP_LIMIT, stopping).await;
        self.settle_initialize().await;
        let (id, gone, doubt) = {
            let seen = self.seen();
            (seen.id.clone(), seen.gone, seen.doubt)
        };
        match id {
            _ if gone => SessionEnd::Gone,
            Some(id) => self.delete(&id).await,
            None => doubt.map_or(SessionEnd::Gone, |doubt| {
                SessionEnd::Unknown(doubt.to_owned())
            }),
        }
    }

    async fn delete(&self, id: &str) -> SessionEnd {
        let name = &self.0.name;
        let version = self.seen().version.clone();
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
            let _ = answer.send(wire.open_session(&uri, &message, custom, limits).await);
        });
        self.seen().initialize = Some(task);
        let reply = self.unless_stopped(async move {
            answered
                .await
                .unwrap_or(Err(StreamableHttpError::TransportChannelClosed))
        });
        correlate(reply.await?, id, false)
    }

    /// Sends `initialize`, and notes the session as soon as the answer names it.
    async fn open_session(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        custom: Custom,
        limits: StreamableHttpResponseLimits,
    ) -> HttpResult<StreamableHttpPostResponse> {
        let (headers, secrets) = self.headers(custom, None).await?;
        let wire = self.clone();
        let handing = move || {
            if wire.0.stopped.is_cancelled() {
                return Err(HttpError::Stopped);
            }
            wire.seen().doubt = Some(UNANSWERED);
            Ok(())
        };
        let response = initialize::send(&self.0.client, uri, message, headers, handing).await?;
        let id = {
            let mut seen = self.seen();
            let id = initialize::session(&response);
            seen.doubt = id.is_err().then_some(UNNAMED);
            seen.id = id.map_err(StreamableHttpError::Client)?;
            seen.id.as_deref().map(str::to_owned)
        };
        let overdue = async {
            self.0.stopped.cancelled().await;
            tokio::time::sleep(REST_LIMIT).await;
        };
        let secrets = secrets.and(id.as_deref());
        let message = tokio::select! {
            read = initialize::read(response, limits) => {
                secrets.hide_in_message(read.map_err(|error| secrets.hide_in_failure(error))?)
            }
            () = overdue => return Err(StreamableHttpError::Client(HttpError::Stopped)),
        };
        self.seen().version = agreed_version(&message);
        if id.is_some() {
            self.0.named.cancel();
        }
        Ok(StreamableHttpPostResponse::Json(message, id))
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
        if self.seen().id.is_some() {
            task.abort();
            return;
        }
        let wire = self.clone();
        late::spawn(async move {
            if tokio::time::timeout(LATE_LIMIT, &mut task).await.is_err() {
                task.abort();
            }
            let id = wire.seen().id.clone();
            if let Some(id) = id {
                wire.delete_late(&id).await;
            }
        });
    }

    /// Ends a session that its guard does not know any more: nobody else would.
    async fn delete_late(&self, id: &str) {
        for pause in LATE_PAUSES {
            if self.delete(id).await == SessionEnd::Gone {
                return;
            }
            tokio::time::sleep(pause).await;
        }
        self.delete(id).await;
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

    /// What the protocol sets, and what the server's source of headers gives at this moment; and what of it must not be
    /// shown.
    async fn headers(
        &self,
        mut custom: Custom,
        session: Option<&str>,
    ) -> HttpResult<(Custom, Secrets)> {
        let headers = headers_of(&self.0.server).await;
        let headers = headers.map_err(StreamableHttpError::Client)?;
        let secrets = Secrets::of_request(headers.values(), session);
        custom.extend(
            headers
                .into_iter()
                .filter_map(|(name, value)| Some((name?, value))),
        );
        Ok((custom, secrets))
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
        let (id, initialized) = (request_id(&message), is_initialized(&message));
        let attached = session.is_some();
        let reply = self
            .unless_stopped(async {
                let (headers, secrets) = self.headers(custom, session.as_deref()).await?;
                let sent = self.send(uri, message, session, headers, limits).await;
                match sent {
                    Ok(reply) => Ok(secrets.hide_in_answer(reply)),
                    Err(error) => Err(secrets.hide_in_failure(error)),
                }
            })
            .await;
        match reply {
            Ok(reply) => correlate(reply, id, attached),
            Err(error) => {
                let mut seen = self.seen();
                seen.gone |= matches!(error, StreamableHttpError::SessionExpired);
                if initialized {
                    seen.failure = Some(error.into());
                    return Err(StreamableHttpError::TransportChannelClosed);
                }
                Err(error)
            }
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
                let (headers, secrets) = self.headers(custom, session.as_deref()).await?;
                let client = &self.0.client;
                let events = client
                    .get_stream_with_max_sse_event_size(
                        uri, session, last_event, None, headers, limit,
                    )
                    .await
                    .map_err(widened)?;
                Ok(secrets.hide_in_events(events))
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
