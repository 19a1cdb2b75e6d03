//! The `lease` command line from outside: real processes on a real MongoDB, a database for each test.
//!
//! Linux only: processes are watched through `/proc`.
#![cfg(target_os = "linux")]

mod acquire;
mod cut_off;
mod definition;
mod document;
mod errors;
mod lost;
mod on_revoke;
mod output;
mod pods;
mod processes;
mod run;
mod running;
mod server_away;
mod slow_check;
mod support;
mod terminal;
mod uri;
mod views;
