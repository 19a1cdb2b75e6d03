//! The parts of the command line, and of the process with handlers, that stand on their own.

pub mod handlers;
pub mod secrets;
pub mod supervise;
mod tls;
