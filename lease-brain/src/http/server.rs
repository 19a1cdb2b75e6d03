//! Accepts connections, and bounds what each of them may cost before anybody has shown a secret.
//!
//! `axum::serve` would do but for two things: it lets a caller take for ever over its headers, and has as many connections
//! as there are callers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

/// How many connections there may be; more wait to be accepted. Well below 1024, the number of descriptors that a process
/// often has.
const CONNECTIONS: usize = 512;
/// How many of them may not have asked for anything yet. Of more, the oldest is ended: who asks at once is answered,
/// however many only hold a connection.
const SILENT: usize = 256;
/// How long a caller may take over its headers.
const HEADERS: Duration = Duration::from_secs(15);
/// For how long a caller may take nothing of what it is sent. Longer, and a page that nobody reads would hold up a drain.
const READING: Duration = Duration::from_secs(10);
/// How long after a connection that could not be accepted, as where descriptors run out.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves until `closed`, then until the requests under way are answered.
pub(crate) async fn serve(listener: TcpListener, app: Router, closed: CancellationToken) {
    let graceful = GracefulShutdown::new();
    // Aborted with this, should it be dropped.
    let mut connections = JoinSet::new();
    let accepting = async {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let silent = Silent::default();
        for number in 0.. {
            // The semaphore is never closed.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let mut stream = TimeoutStream::new(stream);
            stream.set_write_timeout(Some(READING));
            let asked = silent.clone();
            let service = TowerToHyperService::new(app.clone());
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                asked.all().remove(&number);
                service.call(request)
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                // Who holds connections without asking anything would hold the places of others.
                .keep_alive(false)
                .header_read_timeout(HEADERS)
                .serve_connection(TokioIo::new(Box::pin(stream)), service);
            let connection = graceful.watch(connection);
            while connections.try_join_next().is_some() {}
            let ended = silent.clone();
            // Held until the connection is among the silent ones, from which it removes itself.
            let mut all = silent.all();
            let connection = connections.spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection ended early");
                }
                ended.all().remove(&number);
                drop(place);
            });
            all.insert(number, connection);
            if all.len() > SILENT
                && let Some((_, oldest)) = all.pop_first()
            {
                oldest.abort();
            }
        }
    };
    closed.run_until_cancelled(accepting).await;
    drop(listener);
    graceful.shutdown().await;
}

/// The connections that have not asked for anything yet, in the order in which they came.
#[derive(Debug, Clone, Default)]
struct Silent(Arc<Mutex<BTreeMap<u64, AbortHandle>>>);

impl Silent {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, AbortHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
