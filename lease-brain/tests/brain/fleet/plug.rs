//! What a webhook switches: it knows how often it was asked, and how often at the same time.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use lease_brain::api::POD;
use lease_shared::PodId;
use test_mongo::eventually;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::SOON;

/// What it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// Nothing, until the answer is changed.
    Hang,
}

/// One path of the plug, as it has been called so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) begun: usize,
    /// Answered; the others were cut off by the caller.
    pub(crate) answered: usize,
    pub(crate) running: usize,
    pub(crate) most_at_once: usize,
}

/// A server that counts the calls of each path.
pub(crate) struct Plug {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    calls: Mutex<HashMap<String, Calls>>,
    answers: watch::Sender<Answers>,
    /// The pod that it plays.
    plays: Mutex<Option<PodId>>,
}

struct Answers {
    all: Answer,
    /// Of one path, or one call of it, counted from one.
    paths: HashMap<String, Answer>,
    calls: HashMap<(String, usize), Answer>,
}

impl Answers {
    fn to(&self, path: &str, call: usize) -> Answer {
        let call = self.calls.get(&(path.to_owned(), call));
        *call.or_else(|| self.paths.get(path)).unwrap_or(&self.all)
    }
}

impl Plug {
    pub(crate) async fn new(answer: Answer) -> Self {
        let shared = Arc::new(Shared {
            calls: Mutex::default(),
            answers: watch::Sender::new(Answers {
                all: answer,
                paths: HashMap::new(),
                calls: HashMap::new(),
            }),
            plays: Mutex::default(),
        });
        let router = Router::new()
            .fallback(called)
            .with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            shared,
            task,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Answers in this pod's name from now on.
    pub(crate) fn play(&self, pod: &PodId) {
        *self.shared.plays.lock().unwrap() = Some(pod.clone());
    }

    /// Says this from now on, also to those that hang.
    pub(crate) fn answer(&self, answer: Answer) {
        self.shared
            .answers
            .send_modify(|answers| answers.all = answer);
    }

    /// Says this to one path.
    pub(crate) fn answer_path(&self, path: &str, answer: Answer) {
        let path = path.to_owned();
        self.shared.answers.send_modify(|answers| {
            answers.paths.insert(path, answer);
        });
    }

    /// Says this to one call of a path, counted from one.
    pub(crate) fn answer_call(&self, path: &str, call: usize, answer: Answer) {
        let call = (path.to_owned(), call);
        self.shared.answers.send_modify(|answers| {
            answers.calls.insert(call, answer);
        });
    }

    pub(crate) fn calls(&self, path: &str) -> Calls {
        self.shared.calls().get(path).copied().unwrap_or_default()
    }

    /// The sum of all paths.
    pub(crate) fn all(&self) -> Calls {
        let calls = self.shared.calls();
        calls.values().fold(Calls::default(), |sum, calls| Calls {
            begun: sum.begun + calls.begun,
            answered: sum.answered + calls.answered,
            running: sum.running + calls.running,
            most_at_once: sum.most_at_once.max(calls.most_at_once),
        })
    }

    /// Waits until a path has been called that often.
    pub(crate) async fn called(&self, path: &str, times: usize) {
        eventually("the plug is called", SOON, async || {
            Ok(self.calls(path).begun >= times)
        })
        .await
        .unwrap();
    }

    /// Waits until nobody is being answered at a path.
    pub(crate) async fn idle(&self, path: &str) {
        eventually("nobody calls the plug", SOON, async || {
            Ok(self.calls(path).running == 0)
        })
        .await
        .unwrap();
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn calls(&self) -> MutexGuard<'_, HashMap<String, Calls>> {
        self.calls.lock().unwrap()
    }
}

/// Counts a call as running until it is answered, or its caller is gone.
struct Running<'a>(&'a Shared, String);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.0.calls().get_mut(&self.1) {
            calls.running -= 1;
        }
    }
}

async fn called(State(shared): State<Arc<Shared>>, request: Request) -> impl IntoResponse {
    let path = request.uri().path().to_owned();
    let call = {
        let mut calls = shared.calls();
        let calls = calls.entry(path.clone()).or_default();
        calls.begun += 1;
        calls.running += 1;
        calls.most_at_once = calls.most_at_once.max(calls.running);
        calls.begun
    };
    let running = Running(&shared, path);
    let mut answers = shared.answers.subscribe();
    let known = |answers: &Answers| matches!(answers.to(&running.1, call), Answer::Status(_));
    let said = match answers.wait_for(known).await {
        Ok(answers) => answers.to(&running.1, call),
        Err(_) => unreachable!("the plug is there as long as its calls"),
    };
    if let Some(calls) = shared.calls().get_mut(&running.1) {
        calls.answered += 1;
    }
    let status = match said {
        Answer::Status(status) => StatusCode::from_u16(status).unwrap(),
        Answer::Hang => unreachable!("waited for a status"),
    };
    let plays = shared.plays.lock().unwrap().clone();
    (
        status,
        [(POD, plays.map_or_else(String::new, |pod| pod.to_string()))],
    )
}
