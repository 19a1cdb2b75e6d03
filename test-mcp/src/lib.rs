//! MCP servers for tests and demos: [`fake`], which fails on demand, and the [`real`] ones from npm.

pub mod fake;
pub mod real;
