//! What can fail, and how.

/// One kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// `initialize`
    Initialize,
    /// `notifications/initialized`
    Initialized,
    /// `tools/list`
    List,
    /// `tools/call`
    Call,
    /// `notifications/cancelled`
    Cancelled,
    /// GET, for a stream of the server's own messages
    Stream,
    /// DELETE
    Delete,
}

/// How a step fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is answered with this status and text, and nothing is done. 401 says the text in its challenge too.
    Status(u16, &'static str),
    /// It is answered with a JSON-RPC error. An `initialize` opens a session all the same, and names it.
    Error(i64, &'static str),
    /// An `initialize` opens a session and names it, but this is the rest of the answer: a status, a type and a body.
    Answer(u16, &'static str, String),
    /// An `initialize` opens a session and names it, but the connection breaks in the middle of the answer.
    Half,
    /// An `initialize` opens a session and names it, but the answer never ends.
    Endless,
    /// An `initialize` opens a session, and names it by what is no text.
    Nameless,
    /// It hangs before anything is done, until it is released.
    Hang,
    /// It is done, but the answer hangs until it is released.
    HangDone,
}

/// How a request of an unknown session is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// With 404, as the protocol has it.
    NotFound,
    /// With 400 and a JSON-RPC error that has no id, as the reference server does.
    BadRequest,
}
