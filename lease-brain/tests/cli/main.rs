//! The `lease` command line from outside: real processes on a real MongoDB, a database for each test.
//!
//! Linux only: processes are watched through `/proc`.
#![cfg(target_os = "linux")]

mod definition;
mod document;
mod errors;
mod output;
mod support;
mod uri;
mod views;
