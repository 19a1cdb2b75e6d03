//! The task that keeps a session: opens it, watches over it, ends it, and tells its guard.
//!
//! It owns all that has to be ended, so that no caller's future that is dropped, no time limit and no panic on the way
//! leaves something behind: whatever becomes of the opening, the same steps end it.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use lease_toolpack::{GuardError, SessionEnd};
use tokio::sync::oneshot;

use super::{CLOSED, Session, Why};
use crate::error::McpError;
use crate::fault::Fault;
use crate::text::{SHOWN, shown};
use crate::wire::{Handler, Running, Wire};

/// Keeps `session` from before its opening until its guard knows of its end. `opened` hears how the opening went.
pub(crate) async fn keep(session: Arc<Session>, opened: oneshot::Sender<Result<(), McpError>>) {
    // Also if the guard panics: nobody is to wait for ever.
    let _told = (
        session.ended.clone().drop_guard(),
        session.closed.clone().drop_guard(),
    );
    let let_in = AssertUnwindSafe(async {
        tokio::select! {
            biased;
            () = session.ending.cancelled() => Err(session.unopened(CLOSED)),
            said = session.guard.opening() => said.map_err(refused),
        }
    });
    let let_in = let_in.catch_unwind().await;
    if let Err(error) = let_in.unwrap_or_else(|panic| Err(session.unopened(&words_of(&*panic)))) {
        session.end(Why::Unopened);
        let _ = opened.send(Err(error));
        return;
    }
    let end = AssertUnwindSafe(live(&session, opened))
        .catch_unwind()
        .await;
    let end = end.unwrap_or_else(|panic| SessionEnd::Unknown(words_of(&*panic)));
    session.ended.cancel();
    session.guard.closed(end).await;
}

/// The session's life after it was let in, to its end.
async fn live(session: &Session, opened: oneshot::Sender<Result<(), McpError>>) -> SessionEnd {
    let wire = match Wire::new(&session.server) {
        Ok(wire) => wire,
        Err(source) => {
            session.end(Why::Unopened);
            let _ = opened.send(Err(Fault::Broken(source).of_opening(&session.server.name)));
            return SessionEnd::Gone;
        }
    };
    let mut revoked = session.guard.revoked();
    let opening = AssertUnwindSafe(async {
        tokio::select! {
            biased;
            () = session.ending.cancelled() => Err(session.unopened(CLOSED)),
            lost = &mut revoked => Err(lost.into()),
            opened = open(session, &wire) => opened,
        }
    });
    let opening = opening.catch_unwind().await;
    let running = match opening.unwrap_or_else(|panic| Err(session.unopened(&words_of(&*panic)))) {
        Ok(running) => running,
        Err(error) => {
            session.end(Why::Unopened);
            let _ = opened.send(Err(error));
            return wire.end(async {}).await;
        }
    };
    let _ = session.requests.set(running.peer().clone());
    let _ = opened.send(Ok(()));
    let stop = running.cancellation_token();
    let mut running = std::pin::pin!(running.waiting());
    let watched = AssertUnwindSafe(async {
        tokio::select! {
            biased;
            () = session.ending.cancelled() => false,
            lost = revoked => {
                session.end(Why::Revoked(lost));
                false
            }
            _ = &mut running => {
                session.end(Why::Broken("the server closed the connection".to_owned()));
                true
            }
            () = wire.ended() => {
                session.end(Why::Broken("the server's process has ended".to_owned()));
                false
            }
        }
    });
    let stopped = watched.catch_unwind().await.unwrap_or_else(|panic| {
        session.end(Why::Broken(words_of(&*panic)));
        false
    });
    stop.cancel();
    wire.end(async {
        if !stopped {
            let _ = running.await;
        }
    })
    .await
}

/// Opens the session within its limit, and tells the guard how another could end it: as soon as that is known, for this
/// process may die before the server has answered the rest; if it has no name, when it is open.
async fn open(session: &Session, wire: &Wire) -> Result<Running, McpError> {
    let server = &session.server;
    let opened = async {
        let handler = Handler {
            tools: Arc::clone(&session.tools),
        };
        let handshake = async {
            let running = wire.open(handler).await;
            running.map_err(|fault| fault.of_opening(&server.name))
        };
        let told = async {
            let told = session.guard.opened(wire.payload()).await;
            told.map_err(refused)
        };
        let mut handshake = std::pin::pin!(handshake);
        tokio::select! {
            biased;
            () = wire.named() => {
                let (running, ()) = tokio::try_join!(handshake, told)?;
                Ok(running)
            }
            running = &mut handshake => {
                let running = running?;
                told.await?;
                Ok(running)
            }
        }
    };
    let limit = server.init_timeout;
    let opened = tokio::time::timeout(limit, opened).await;
    opened.unwrap_or_else(|_| Err(Fault::Timeout(limit).of_opening(&server.name)))
}

fn refused(error: GuardError) -> McpError {
    match error {
        GuardError::Lost(lost) => lost.into(),
        GuardError::Unavailable(error) => error.into(),
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!(
        "panicked: {}",
        shown(words.unwrap_or("without words"), SHOWN)
    )
}
