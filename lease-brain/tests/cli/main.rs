//! The `lease` command line from outside: real processes on a real MongoDB, a database for each test.
//!
//! Linux only: processes are watched through `/proc`.
#![cfg(target_os = "linux")]

mod acquire;
mod brain;
mod broken;
mod bulk;
mod cleanup;
mod cut_off;
mod definition;
mod document;
mod errors;
mod lost;
mod many;
mod mcp;
mod on_revoke;
mod output;
mod pods;
mod processes;
#[path = "../brain/webhook/receiver.rs"]
#[expect(dead_code, reason = "the tests of the handler need more of it")]
mod receiver;
mod revoke;
mod run;
mod running;
mod server_away;
mod slow_check;
mod support;
mod terminal;
mod tex;
#[path = "../brain/tex/service.rs"]
#[expect(dead_code, reason = "the tests of the brain need more of it")]
mod tex_service;
mod token;
mod uri;
mod views;
