//! What wrapper and guardian say to each other: one JSON object a line over a Unix socket.
//!
//! The end of the stream is a message too: the other side has died.

use rustix::process::Pid;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    ffi::OsString,
    io::{self, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
};

use super::{Confinement, Deadlines};

/// The first argument that makes the binary a guardian.
pub(super) const GUARDIAN_ARGUMENT: &str = "__guardian";

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToGuardian {
    /// Start the child.
    Start { deadlines: Deadlines, mode: Mode },
    /// The child may run longer.
    Extend(Deadlines),
    /// Pass a signal to the child's group.
    Signal(i32),
    /// End everything.
    End,
    /// The wrapper runs on after it was stopped.
    Resumed,
}

/// What the child has of the wrapper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Mode {
    /// Its terminal, to give back to the process group `group`. The folder `scratch` is removed when all is over.
    Terminal {
        group: i32,
        scratch: Option<PathBuf>,
    },
    /// Pipes, which end with the child, and no terminal. Not a `PathBuf`, for which every name has to be UTF-8.
    Pipes {
        cwd: Option<OsString>,
        confinement: Option<Confinement>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromGuardian {
    /// The child runs, as leader of a process group of that number.
    Started { child: i32 },
    /// There is no child.
    Failed { failure: Failure, reason: String },
    /// The child was stopped from the terminal; the wrapper shall stop as well.
    Stopped,
    /// The child and all its descendants are gone.
    Ended { status: Status, cause: Cause },
}

/// Why the child could not be started.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    NotFound,
    NotExecutable,
    Directory,
    Confinement,
}

/// How the child itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Status {
    Exited(i32),
    Signalled(i32),
}

/// What made the guardian end the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Cause {
    /// The child ended by itself, or by a signal from outside.
    Child,
    /// The wrapper asked for it, or is gone.
    Wrapper,
    /// The deadline passed without an extension.
    Deadline,
}

/// Writes one message. The messages are far smaller than a socket's buffer, so this neither blocks
/// nor writes half a line even when the other side is stopped.
pub(super) fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads what `next_line` gave; `None` at the end of the stream or when the line makes no sense,
/// which is treated alike: the other side cannot be relied upon.
pub(super) fn parse<T: DeserializeOwned>(line: io::Result<Option<String>>) -> Option<T> {
    serde_json::from_str(&line.ok()??).ok()
}

/// A process number from the wire; 0 and negative ones would address other processes than meant.
pub(super) fn pid(raw: i32) -> Option<Pid> {
    (raw > 0).then(|| Pid::from_raw(raw)).flatten()
}
