//! How a run can fail to start, and how it can end.

use std::io;

use super::protocol::{Cause, Failure, Status};

/// Why there is no child.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("command not found: {0}")]
    NotFound(String),
    /// The program is there but cannot be executed.
    #[error("cannot execute the command: {0}")]
    NotExecutable(String),
    /// The working directory cannot be entered.
    #[error("cannot enter the working directory: {0}")]
    Directory(String),
    /// The kernel cannot confine the command, so it was not started.
    #[error("cannot confine the command: {0}")]
    Confinement(String),
    /// The guardian could not be started.
    #[error("cannot start the guardian")]
    Guardian(#[from] io::Error),
}

impl SpawnError {
    /// The status a shell gives for this; `None` when it is not the command's fault.
    pub fn exit_code(&self) -> Option<u8> {
        match self {
            Self::NotFound(_) => Some(127),
            Self::NotExecutable(_) => Some(126),
            Self::Directory(_) | Self::Confinement(_) | Self::Guardian(_) => None,
        }
    }

    pub(super) fn from_report(failure: Failure, reason: String) -> Self {
        match failure {
            Failure::NotFound => Self::NotFound(reason),
            Failure::NotExecutable => Self::NotExecutable(reason),
            Failure::Directory => Self::Directory(reason),
            Failure::Confinement => Self::Confinement(reason),
        }
    }
}

/// How a run ended. The child and all its descendants are gone; only where a [`Piped`](super::Piped) has
/// lost its guardian may some that left the child's process group live on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The child exited with this status.
    Exited(i32),
    /// The child was ended by this signal, from outside or passed on.
    Signalled(i32),
    /// The child was ended as the wrapper asked.
    OnRequest,
    /// The child was ended because no extension came in time.
    DeadlinePassed,
    /// The guardian was killed, so the child was killed as well.
    GuardianDied,
}

impl Ended {
    /// The status a shell gives for the child's own end, 128 + n for a signal; `None` when the run was
    /// cut short.
    pub fn exit_code(&self) -> Option<u8> {
        match *self {
            Self::Exited(code) => Some(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
            Self::Signalled(number) => Some(u8::try_from(128 + number).unwrap_or(u8::MAX)),
            Self::OnRequest | Self::DeadlinePassed | Self::GuardianDied => None,
        }
    }

    pub(super) fn from_report(status: Status, cause: Cause) -> Self {
        match (cause, status) {
            (Cause::Child, Status::Exited(code)) => Self::Exited(code),
            (Cause::Child, Status::Signalled(number)) => Self::Signalled(number),
            (Cause::Wrapper, _) => Self::OnRequest,
            (Cause::Deadline, _) => Self::DeadlinePassed,
        }
    }
}
