//! Accepts connections, and bounds what each of them may cost before anybody has shown a secret.
//!
//! `axum::serve` would do but for two things: it lets a caller take for ever over its headers, and has as many connections
//! as there are callers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

/// How many connections there may be; more wait to be accepted.
const CONNECTIONS: usize = 1024;
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
        loop {
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
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                // Who holds connections without asking anything would hold the places of others.
                .keep_alive(false)
                .header_read_timeout(HEADERS)
                .serve_connection(
                    TokioIo::new(Box::pin(stream)),
                    TowerToHyperService::new(app.clone()),
                );
            let connection = graceful.watch(connection);
            while connections.try_join_next().is_some() {}
            connections.spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection ended early");
                }
                drop(place);
            });
        }
    };
    closed.run_until_cancelled(accepting).await;
    drop(listener);
    graceful.shutdown().await;
}
