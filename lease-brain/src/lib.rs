//! What the commands `lease` and `brain` are made of, and what a service links that is a pod itself.
//!
//! Such a service holds leases in its pod's name: they are revoked when it dies, and cleaned up by another pod that has a
//! handler of their type. It builds a [`Brain`] with its handlers, acquires through [`Brain::leases`] in the name of
//! [`Brain::pod`], and gives everything back when [`Brain::stopping`] says so.
//! `examples/bench_pod.rs` is such a program.
//!
//! What `brain` does besides is there for it as well: [`telemetry::init`] logs, [`metrics::install`] counts,
//! [`Shutdown::on_signals`] stops. Where it offers tools or TeX ([`BrainBuilder::mcp`],
//! [`BrainBuilder::tex`]), its `main` begins as the crate `supervise` says, for what these start is guarded by the same
//! binary. `brain` gives its threads stacks of 16 MiB: the store takes documents that are nested deeper than the usual ones
//! can read, should somebody write such a thing into it by hand.

pub mod access;
pub mod api;
pub mod args;
pub mod brain;
pub mod client;
pub mod cluster;
mod dispatch;
mod document_fields;
mod guard;
pub mod handlers;
mod http;
mod insights;
mod jitter;
mod jobs;
pub mod mcp;
pub mod metrics;
pub mod secrets;
mod sweeper;
pub mod telemetry;
pub mod tex;
mod tls;
pub mod with_pod;
pub mod words;

pub use brain::{Brain, BrainBuilder, BrainError, Shutdown};
pub use cluster::PodSettings;
