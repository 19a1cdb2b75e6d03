#![doc = include_str!("../README.md")]

mod arguments;
mod connection;
mod delete;
mod error;
mod fault;
mod late;
mod secrets;
mod server;
mod session;
mod text;
mod tls;
mod tools;
mod wire;

pub use connection::{GuardSource, McpConnection};
pub use delete::end_session;
pub use error::{BoxError, McpError, SharedError};
pub use late::settled;
pub use server::{EnvSource, HeaderSource, HttpServer, McpServer, McpTransport, StdioServer, Tool};
