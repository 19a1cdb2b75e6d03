//! What the `lease` and `brain` binaries are made of.

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
