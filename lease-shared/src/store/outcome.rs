//! What an answer of the store means: done, refused, or unknown.

use std::fmt;

use mongodb::bson::Document;
use mongodb::error::{Error, ErrorKind, RETRYABLE_WRITE_ERROR};

/// The store did not do what was asked, or did not say so with certainty.
///
/// The text names the step; what went wrong is the error's source.
#[derive(Debug, thiserror::Error)]
#[error("could not {step}")]
pub struct StoreError {
    step: &'static str,
    #[source]
    cause: Cause,
}

impl StoreError {
    pub(crate) fn new(step: &'static str, cause: Cause) -> Self {
        Self { step, cause }
    }

    pub(crate) fn driver(step: &'static str, error: Error) -> Self {
        Self::new(step, Cause::Driver(error))
    }

    pub(crate) fn malformed(step: &'static str, problem: impl fmt::Display) -> Self {
        Self::new(step, Cause::Malformed(problem.to_string()))
    }

    /// Did the store answer with a document that cannot be read? What was to be done with it, was done.
    pub fn is_malformed(&self) -> bool {
        matches!(self.cause, Cause::Malformed(_))
    }

    /// What was being done, as an infinitive: `book counters`.
    pub fn step(&self) -> &'static str {
        self.step
    }

    /// Can the same command, sent again, have another outcome? False for what only a person can mend (a right that is
    /// missing, a document that the server refuses).
    pub fn is_transient(&self) -> bool {
        match &self.cause {
            Cause::Driver(error) => is_transient(error),
            Cause::Unsure { .. } | Cause::Deadline => true,
            Cause::Refused { code, .. } => TRANSIENT_CODES.contains(code),
            Cause::Malformed(_) => false,
        }
    }

    /// Did the time run out before there was any answer?
    pub(crate) fn is_deadline(&self) -> bool {
        matches!(self.cause, Cause::Deadline)
    }

    /// Is no server reachable at all?
    pub fn is_unreachable(&self) -> bool {
        match &self.cause {
            Cause::Driver(error) => matches!(*error.kind, ErrorKind::ServerSelection { .. }),
            _ => false,
        }
    }

    /// Could the name of the server not be resolved? Another time, it may be.
    pub fn is_unresolved(&self) -> bool {
        match &self.cause {
            Cause::Driver(error) => matches!(*error.kind, ErrorKind::DnsResolve { .. }),
            _ => false,
        }
    }

    /// The server's code for a statement that it refused.
    pub(crate) fn refused(&self) -> Option<(usize, i32)> {
        match self.cause {
            Cause::Refused { index, code, .. } => Some((index, code)),
            _ => None,
        }
    }
}

/// Why a step did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cause {
    #[error("{}", of_driver(.0))]
    Driver(Error),
    #[error("the server refused it: {message} (code {code})")]
    Refused {
        index: usize,
        code: i32,
        message: String,
    },
    #[error("the server could not confirm the write: {message} (code {code})")]
    Unsure { code: i32, message: String },
    #[error("the server did not answer in time")]
    Deadline,
    #[error("{0}")]
    Malformed(String),
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

/// The driver prints its kind, labels and the whole topology; people need one line.
fn of_driver(error: &Error) -> String {
    match error.kind.as_ref() {
        ErrorKind::ServerSelection { .. } => "no MongoDB primary can be reached".to_owned(),
        ErrorKind::Command(command) => format!("{} (code {})", command.message, command.code),
        ErrorKind::Io(io) => format!("connection: {io}"),
        ErrorKind::ConnectionPoolCleared { .. } => {
            "the connection was cut because its server stopped answering".to_owned()
        }
        kind => kind.to_string(),
    }
}

/// A reply that says `ok` may still carry the error of a statement or of the write concern. The statement's error comes
/// first: it says how far the batch got.
pub(crate) fn check_reply(reply: Document) -> Result<Document, Cause> {
    if let Some(error) = first_error(&reply, "writeErrors") {
        return Err(Cause::Refused {
            index: usize::try_from(error.get_i32("index").unwrap_or(0)).unwrap_or(0),
            code: error.get_i32("code").unwrap_or(0),
            message: error.get_str("errmsg").unwrap_or("no message").to_owned(),
        });
    }
    if let Ok(error) = reply.get_document("writeConcernError") {
        return Err(Cause::Unsure {
            code: error.get_i32("code").unwrap_or(0),
            message: error.get_str("errmsg").unwrap_or("no message").to_owned(),
        });
    }
    Ok(reply)
}

fn first_error<'a>(reply: &'a Document, field: &str) -> Option<&'a Document> {
    reply.get_array(field).ok()?.first()?.as_document()
}

/// Can the same command, sent again, have another outcome without anybody mending anything? The rule of
/// [`StoreError::is_transient`], for those who ask the same server for something else.
pub fn is_transient(error: &Error) -> bool {
    if error.contains_label(RETRYABLE_WRITE_ERROR) {
        return true;
    }
    match error.kind.as_ref() {
        ErrorKind::Io(_)
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::ServerSelection { .. } => true,
        ErrorKind::Command(command) => TRANSIENT_CODES.contains(&command.code),
        _ => false,
    }
}

/// Answers that a later try may turn: the server is changing roles, shutting down, overloaded or out of time.
const TRANSIENT_CODES: [i32; 19] = [
    6,     // HostUnreachable
    7,     // HostNotFound
    24,    // LockTimeout
    50,    // MaxTimeMSExpired
    64,    // WriteConcernFailed
    89,    // NetworkTimeout
    91,    // ShutdownInProgress
    112,   // WriteConflict
    134,   // ReadConcernMajorityNotAvailableYet
    175,   // QueryPlanKilled
    189,   // PrimarySteppedDown
    202,   // NetworkInterfaceExceededTimeLimit
    262,   // ExceededTimeLimit
    9001,  // SocketException
    10107, // NotWritablePrimary
    11600, // InterruptedAtShutdown
    11602, // InterruptedDueToReplStateChange
    13435, // NotPrimaryNoSecondaryOk
    13436, // NotPrimaryOrSecondary
];
