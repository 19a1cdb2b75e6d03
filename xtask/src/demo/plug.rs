//! What the pods' webhooks switch off: it knows nothing of leases, and remembers who called.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// How often each bench was switched off.
type Calls = Arc<Mutex<BTreeMap<String, usize>>>;

/// A server on loopback, for as long as the demo runs.
pub(crate) struct Plug {
    address: SocketAddr,
    calls: Calls,
    _task: AbortOnDropHandle<()>,
}

impl Plug {
    pub(crate) async fn start() -> Result<Self> {
        let calls = Calls::default();
        let router = Router::new()
            .route("/off/{bench}", post(off))
            .with_state(Arc::clone(&calls));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the plug: {error}");
            }
        });
        Ok(Self {
            address,
            calls,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Below this, `/off/NAME` switches a bench off.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The benches that were switched off, each with how often.
    pub(crate) fn calls(&self) -> BTreeMap<String, usize> {
        locked(&self.calls).clone()
    }
}

async fn off(State(calls): State<Calls>, Path(bench): Path<String>) -> StatusCode {
    *locked(&calls).entry(bench).or_default() += 1;
    StatusCode::NO_CONTENT
}

fn locked(calls: &Calls) -> MutexGuard<'_, BTreeMap<String, usize>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
