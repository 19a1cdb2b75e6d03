//! The `lease` command line from outside: real processes on a real MongoDB, a database for each test.
//!
//! Linux only: processes are watched through `/proc`.
#![cfg(target_os = "linux")]

mod support;
mod uri;
