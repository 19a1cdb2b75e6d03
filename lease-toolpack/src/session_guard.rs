//! The moments of a session's life, and what a guard can say to them.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// What a [`SessionGuard`] answers with.
pub type GuardFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a clean-up by somebody else would need to end the session. No secrets: operators see it.
pub type SessionPayload = serde_json::Map<String, serde_json::Value>;

/// Stands before *one* session at something scarce, from before it is opened until it has ended. The next session needs
/// a guard of its own.
///
/// The tool calls [`opening`](Self::opening) once; if that succeeds, [`closed`](Self::closed) once at the end, whatever
/// became of the session. In between, [`opened`](Self::opened) as soon as it is known how the session could be ended by
/// another, [`used`](Self::used) before every use, and it watches [`revoked`](Self::revoked) all along.
///
/// A guard that is dropped without `closed` gives up what it holds by itself, but later, and knows nothing of how the
/// session ended.
pub trait SessionGuard: fmt::Debug + Send + Sync + 'static {
    /// Before the session is opened. May wait until it is its turn.
    ///
    /// # Errors
    /// Always [`GuardError::Unavailable`]: the session must not be opened. Nothing is held, and `closed` need not follow.
    ///
    /// # Cancellation
    /// Dropped, nothing stays held.
    fn opening(&self) -> GuardFuture<'_, Result<(), GuardError>>;

    /// The session is there; `payload` is what another would need to end it.
    ///
    /// # Errors
    /// Either: the session must be ended again, for nobody could clean up behind it.
    fn opened(&self, payload: SessionPayload) -> GuardFuture<'_, Result<(), GuardError>>;

    /// Before the session is used, every time.
    ///
    /// # Errors
    /// [`GuardError::Lost`]: end the session now. [`GuardError::Unavailable`]: do not use it now; it may still be ours.
    fn used(&self) -> GuardFuture<'_, Result<(), GuardError>>;

    /// Returns when the session has to end now, also in the middle of a use. Whoever revoked it waits for
    /// [`closed`](Self::closed).
    fn revoked(&self) -> GuardFuture<'_, SessionLost>;

    /// The session has ended; another may have its turn. After that the guard is of no more use.
    fn closed(&self, end: SessionEnd) -> GuardFuture<'_, ()>;
}

/// What is known of a session that was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnd {
    /// It is gone.
    Gone,
    /// It may go on where it runs. Says why that is not known, without secrets.
    Unknown(String),
}

/// Why a session must not be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GuardError {
    /// It was revoked: end it. What comes next needs a new session, and a new guard.
    #[error(transparent)]
    Lost(#[from] SessionLost),
    /// There is no permission now, and it is not known that there will be none. Try again later.
    #[error(transparent)]
    Unavailable(#[from] SessionUnavailable),
}

/// The session was revoked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("session revoked: {reason}")]
pub struct SessionLost {
    /// Why, as far as it is known.
    pub reason: String,
}

/// No session now. The source is the guard's own error, for those who know the guard; all who wait for the same session
/// get the same one.
#[derive(Debug, Clone, thiserror::Error)]
#[error("no session can be used now")]
pub struct SessionUnavailable(#[source] pub Arc<dyn Error + Send + Sync>);

impl SessionUnavailable {
    /// No session, for this reason.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(source.into().into())
    }
}

/// The guard of those who limit nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unguarded;

impl SessionGuard for Unguarded {
    fn opening(&self) -> GuardFuture<'_, Result<(), GuardError>> {
        Box::pin(async { Ok(()) })
    }

    fn opened(&self, _: SessionPayload) -> GuardFuture<'_, Result<(), GuardError>> {
        Box::pin(async { Ok(()) })
    }

    fn used(&self) -> GuardFuture<'_, Result<(), GuardError>> {
        Box::pin(async { Ok(()) })
    }

    fn revoked(&self) -> GuardFuture<'_, SessionLost> {
        Box::pin(std::future::pending())
    }

    fn closed(&self, _: SessionEnd) -> GuardFuture<'_, ()> {
        Box::pin(async {})
    }
}
