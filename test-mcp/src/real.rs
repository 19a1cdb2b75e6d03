//! The real servers, installed from npm and started on loopback.
//!
//! - [`tools`]: what they need, or the reason on stderr why a test with them is skipped.
//! - [`Everything`]: MCP's own server for testing, which has all features of the protocol.
//! - [`Playwright`]: a server whose sessions hold a browser, so that a session left behind can be counted.
//! - [`browsers_of`], [`processes_mentioning`]: what still runs.
//!
//! ```no_run
//! use test_mcp::real::{Everything, tools};
//!
//! # async fn example() -> anyhow::Result<()> {
//! let Some(tools) = tools()? else { return Ok(()) };
//! let server = Everything::http(&tools).await?;
//! println!("{}", server.url());
//! # Ok(())
//! # }
//! ```

mod everything;
mod playwright;
mod server;
mod tools;

pub use everything::{Everything, SessionEvent};
pub use playwright::{PAGE, Playwright, Profile};
pub use test_process::{browsers_of, processes_mentioning};
pub use tools::{REQUIRED, Tools, find, tools, tools_for};
