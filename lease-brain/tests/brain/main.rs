//! The brain, on a real MongoDB with a database for each test.

mod asking;
mod connections;
mod dispatch;
mod failover;
mod fleet;
mod insights;
mod lifecycle;
mod mcp;
mod pods;
mod routes;
mod store;
mod sweep;
mod tex;
mod webhook;
