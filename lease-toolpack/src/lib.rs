#![doc = include_str!("../README.md")]

mod session_guard;

pub use session_guard::{
    GuardError, GuardFuture, SessionEnd, SessionGuard, SessionLost, SessionPayload,
    SessionUnavailable, Unguarded,
};
