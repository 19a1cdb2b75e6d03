//! An identity provider's set of keys, at a URL.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(super) struct Provider {
    pub(super) url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    asked: AtomicUsize,
    answer: Mutex<Answer>,
}

#[derive(Clone)]
pub(super) enum Answer {
    Set(String),
    Status(u16),
    /// To another place, which has a good set.
    Redirect(String),
}

impl Default for Answer {
    fn default() -> Self {
        Self::Status(500)
    }
}

impl Provider {
    pub(super) async fn new(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        let shared = Arc::<Shared>::default();
        let app = Router::new()
            .route("/jwks", get(jwks))
            .with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let provider = Self {
            url,
            shared,
            serving,
        };
        provider.answer(answer);
        provider
    }

    /// From now on.
    pub(super) fn answer(&self, answer: Answer) {
        *self.shared.answer.lock().unwrap() = answer;
    }

    pub(super) fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn jwks(State(shared): State<Arc<Shared>>) -> Response {
    shared.asked.fetch_add(1, Ordering::SeqCst);
    match shared.answer.lock().unwrap().clone() {
        Answer::Set(text) => text.into_response(),
        Answer::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Answer::Redirect(url) => (StatusCode::FOUND, [(header::LOCATION, url)]).into_response(),
    }
}
