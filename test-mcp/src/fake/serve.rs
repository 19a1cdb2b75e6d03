//! The answers.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Fault, Gone, Request, Shared, State as Now, Step};

/// The newest version of the protocol that has sessions, and one that has none.
const WITH_SESSIONS: &str = "2025-11-25";
const WITHOUT_SESSIONS: &str = "2026-07-28";

/// Answers any request.
pub(super) async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    // Before the request can be seen, so that a release after that is not missed.
    let mut gate = shared.gate.subscribe();
    let request = Request::read(&method, &headers, &body);
    let step = request.step().filter(|_| uri.path() == "/mcp");
    let (fault, refusal) = shared.admit(&request, step, &uri);
    shared.happened();
    let Some(step) = step else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    match fault {
        Some(Fault::Status(status, text)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = (status, text).into_response();
            if status == StatusCode::UNAUTHORIZED
                && let Ok(challenge) = HeaderValue::from_str(text)
            {
                response.headers_mut().insert("www-authenticate", challenge);
            }
            return response;
        }
        Some(Fault::Hang) => {
            let _ = gate.changed().await;
        }
        _ => {}
    }
    if let Some(refusal) = refusal {
        return refusal.into_response();
    }
    let error = match fault {
        Some(Fault::Error(code, message)) => Some(json!({"code": code, "message": message})),
        _ => None,
    };
    let response = match step {
        Step::Initialize => shared.initialize(&request, error, fault.as_ref()),
        Step::Initialized => StatusCode::ACCEPTED.into_response(),
        Step::Cancelled => shared.cancel(&request),
        Step::List => shared.reply(
            &request,
            error.map_or_else(|| Ok(shared.list(&request)), Err),
        ),
        Step::Call => shared.call(&request, error, gate.clone()).await,
        Step::Stream => shared.stream(),
        Step::Delete => shared.delete(&request),
    };
    shared.happened();
    if fault == Some(Fault::HangDone) {
        let _ = gate.changed().await;
    }
    response
}

/// How a request is refused that no session is behind.
enum Refusal {
    Gone(Gone),
    Unexpected,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Gone(Gone::NotFound) => {
                (StatusCode::NOT_FOUND, "Session not found").into_response()
            }
            Self::Gone(Gone::BadRequest) => {
                let error =
                    json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
                json_reply(
                    StatusCode::BAD_REQUEST,
                    &json!({"jsonrpc": "2.0", "error": error}),
                )
            }
            Self::Unexpected => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

impl Shared {
    /// Logs a request, and says what is to become of it.
    fn admit(
        &self,
        request: &Request,
        step: Option<Step>,
        uri: &Uri,
    ) -> (Option<Fault>, Option<Refusal>) {
        let mut state = self.state();
        state.requests.push(request.clone());
        let fault = step.and_then(|step| state.faults.get(&step).cloned());
        let doubt = match (step, &request.session) {
            (None, _) => Some(format!("{} {uri}", request.http)),
            (Some(Step::Initialize), Some(_)) => Some("initialize in a session".to_owned()),
            (Some(Step::Initialize), None) => None,
            _ if state.sessionless && (step == Some(Step::Delete) || request.session.is_some()) => {
                Some("a session that was never given".to_owned())
            }
            (_, Some(id)) if !state.opened.contains(id) => Some(format!("unknown session {id}")),
            (_, None) if !state.sessionless => Some("no session".to_owned()),
            // Whoever was not told of any names none.
            (Some(Step::Delete), _) if request.version.is_none() => None,
            _ if request.version.as_deref() != state.agreed_version(request.session.as_deref()) => {
                Some("not the agreed version".to_owned())
            }
            _ => None,
        };
        if let Some(doubt) = doubt {
            state.unexpected.push(format!("{doubt}: {request:?}"));
            return (fault, Some(Refusal::Unexpected));
        }
        let gone = request
            .session
            .as_ref()
            .is_some_and(|id| !state.live.contains(id));
        (fault, gone.then_some(Refusal::Gone(state.gone)))
    }

    fn initialize(
        &self,
        request: &Request,
        error: Option<Value>,
        fault: Option<&Fault>,
    ) -> Response {
        let offered = request.body["params"]["protocolVersion"].as_str();
        let version = match offered {
            Some(WITHOUT_SESSIONS) => WITHOUT_SESSIONS,
            _ => self.state().version.unwrap_or(WITH_SESSIONS),
        };
        let told = matches!(
            fault,
            None | Some(Fault::Hang | Fault::HangDone | Fault::Nameless)
        );
        let id = self.open(version, told);
        let result = json!({
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "fake", "version": "1"},
        });
        let mut response = match fault {
            Some(Fault::Answer(status, kind, body)) => {
                let status = StatusCode::from_u16(*status).unwrap_or_default();
                (status, [("content-type", *kind)], body.clone()).into_response()
            }
            Some(Fault::Half) => begun(stream::once(async {
                // Not before the beginning has left.
                tokio::task::yield_now().await;
                Err(std::io::Error::other("as it was told"))
            })),
            Some(Fault::Endless) => begun(stream::pending()),
            _ => self.reply(request, error.map_or(Ok(result), Err)),
        };
        let id = match fault {
            Some(Fault::Nameless) => HeaderValue::from_bytes(b"fake \xff").ok(),
            _ => id.and_then(|id| id.parse().ok()),
        };
        if let Some(id) = id {
            response.headers_mut().insert("mcp-session-id", id);
        }
        response
    }

    fn open(&self, version: &str, told: bool) -> Option<String> {
        let mut state = self.state();
        if state.sessionless || version == WITHOUT_SESSIONS {
            return None;
        }
        let id = format!("fake-{}", state.opened.len() + 1);
        state.opened.push(id.clone());
        let told = told.then(|| version.to_owned());
        state.agreed.insert(id.clone(), told);
        state.live.insert(id.clone());
        Some(id)
    }

    fn list(&self, request: &Request) -> Value {
        let state = self.state();
        let from = request.body["params"]["cursor"]
            .as_str()
            .and_then(|cursor| cursor.parse().ok());
        let from = usize::min(from.unwrap_or(0), state.tools.len());
        let to = usize::min(from.saturating_add(state.page), state.tools.len());
        let mut listed = json!({"tools": state.tools[from..to]});
        if to < state.tools.len() {
            listed["nextCursor"] = to.to_string().into();
        }
        listed
    }

    async fn call(
        &self,
        request: &Request,
        error: Option<Value>,
        mut gate: watch::Receiver<u64>,
    ) -> Response {
        if let Some(error) = error {
            return self.reply(request, Err(error));
        }
        let params = &request.body["params"];
        let text = |text: String| json!([{"type": "text", "text": text}]);
        let result = match params["name"].as_str() {
            Some("echo") => json!({"content": text(params["arguments"].to_string())}),
            Some("fail") => json!({"content": text("it failed".to_owned()), "isError": true}),
            Some("slow") => {
                let _running = Running::new(self);
                let ended = async {
                    let mut moments = self.moments.subscribe();
                    while !self.is_over(request) {
                        let _ = moments.changed().await;
                    }
                };
                tokio::select! {
                    _ = gate.changed() => json!({"content": text("done".to_owned())}),
                    () = ended => return StatusCode::ACCEPTED.into_response(),
                }
            }
            _ => {
                return self.reply(
                    request,
                    Err(json!({"code": -32602, "message": "unknown tool"})),
                );
            }
        };
        self.reply(request, Ok(result))
    }

    /// Whether a call was cancelled, or its session has ended.
    fn is_over(&self, request: &Request) -> bool {
        let state = self.state();
        let ended = request
            .session
            .as_ref()
            .is_some_and(|id| !state.live.contains(id));
        ended
            || state
                .cancelled
                .contains(&(request.session.clone(), request.body["id"].to_string()))
    }

    fn cancel(&self, request: &Request) -> Response {
        let id = request.body["params"]["requestId"].to_string();
        self.state().cancelled.insert((request.session.clone(), id));
        StatusCode::ACCEPTED.into_response()
    }

    fn delete(&self, request: &Request) -> Response {
        if let Some(id) = &request.session {
            self.state().live.remove(id);
        }
        StatusCode::OK.into_response()
    }

    /// A stream that stays open, and gives what the server says by itself.
    fn stream(self: &Arc<Self>) -> Response {
        self.state().streams += 1;
        let open = (OpenStream(Arc::clone(self)), self.events.subscribe());
        let events = stream::unfold(open, async |(open, mut events)| {
            let event = events.recv().await.ok()?;
            Some((
                Ok::<_, std::convert::Infallible>(format!("data: {event}\n\n")),
                (open, events),
            ))
        });
        (
            [("content-type", "text/event-stream")],
            Body::from_stream(events),
        )
            .into_response()
    }

    fn reply(&self, request: &Request, result: Result<Value, Value>) -> Response {
        let (key, value) = match result {
            Ok(result) => ("result", result),
            Err(error) => ("error", error),
        };
        let reply = json!({"jsonrpc": "2.0", "id": request.body["id"], key: value});
        if self.state().event_answers {
            let event = format!("data: {reply}\n\n");
            ([("content-type", "text/event-stream")], event).into_response()
        } else {
            json_reply(StatusCode::OK, &reply)
        }
    }
}

impl Now {
    /// The version that requests of a session have to name.
    fn agreed_version(&self, session: Option<&str>) -> Option<&str> {
        match session {
            Some(id) => self.agreed.get(id)?.as_deref(),
            None => Some(self.version.unwrap_or(WITH_SESSIONS)),
        }
    }
}

/// The beginning of an answer, and what follows it.
fn begun(rest: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Response {
    let beginning = stream::once(async { Ok(Bytes::from_static(b"{\"jsonrpc\": ")) });
    let body = Body::from_stream(beginning.chain(rest));
    ([("content-type", "application/json")], body).into_response()
}

fn json_reply(status: StatusCode, reply: &Value) -> Response {
    (
        status,
        [("content-type", "application/json")],
        reply.to_string(),
    )
        .into_response()
}

/// A call that waits.
struct Running<'a>(&'a Shared);

impl<'a> Running<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.state().running += 1;
        shared.happened();
        Self(shared)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
        self.0.happened();
    }
}

/// A stream that is open.
struct OpenStream(Arc<Shared>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.state().streams -= 1;
        self.0.happened();
    }
}
