//! Errors, split by what the caller can do next.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lease_toolpack::{SessionLost, SessionUnavailable};

/// An error of whoever is asked for credentials, or of the transport.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// An error that all get who waited for the same thing.
pub type SharedError = Arc<dyn Error + Send + Sync>;

/// Why a call gave no result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The guard let no session be opened, or could not say that it is still ours. Nothing was called.
    #[error(transparent)]
    Unavailable(#[from] SessionUnavailable),
    /// The session was revoked, before the call or in the middle of it; it has been closed. The next call opens anew.
    #[error(transparent)]
    Revoked(#[from] SessionLost),
    /// No session could be opened. Nothing was called.
    #[error("could not open a session at {server}")]
    Open {
        /// The server's name.
        server: String,
        /// Why.
        #[source]
        source: SharedError,
    },
    /// The server has ended the session; it has been closed here too. Nothing was called: the next call opens anew.
    #[error("{server} has ended the session: call again, for a new one")]
    Ended {
        /// The server's name.
        server: String,
    },
    /// The connection broke during the call. What the call did is not known.
    #[error("the connection to {server} broke during the call: what it did is not known")]
    Broken {
        /// The server's name.
        server: String,
        /// How.
        #[source]
        source: SharedError,
    },
    /// No answer in time. What the call did, or still does, is not known. The session stays open.
    #[error("{server} did not answer within {limit:?}: what the call did is not known")]
    Timeout {
        /// The server's name.
        server: String,
        /// The limit.
        limit: Duration,
    },
    /// The server refused the call; or, with 401 and 403, the session for it.
    #[error("{server} refused the call: {message} ({code})")]
    Refused {
        /// The server's name.
        server: String,
        /// The JSON-RPC error code, or the HTTP status.
        code: i64,
        /// The server's words, cut to 200 characters, without the credentials that it was sent.
        message: String,
    },
}
