//! Programs of others for tests: found, installed from npm, and ended with their parent.
//!
//! - [`unless_skipped`]: what a test needs, or the reason on stderr why it is skipped.
//! - [`on_path`], [`npm::Packages`]: where the programs are.
//! - [`Process`]: a program that cannot outlive this process, nor can what it has started.
//! - [`processes_mentioning`], [`browsers_of`]: what still runs.

pub mod npm;
mod process;
mod processes;
mod wish;

pub use process::{Process, surroundings};
pub use processes::{browsers_of, processes_mentioning};
pub use wish::{on_path, unless_skipped};
