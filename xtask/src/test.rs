//! `cargo xtask test`: all tests on real servers.

use anyhow::Result;
use test_mcp::real;
use test_mongo::Mongod;

use crate::cargo::{cargo, succeed};
use crate::mongo::given_uri;

/// Options of `cargo xtask test`.
#[derive(clap::Args, Default)]
#[command(after_help = "Example: cargo xtask test -- reap_loses_to_release")]
pub(crate) struct Opts {
    /// Arguments for `cargo test`
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs the tests on the server of `MONGODB_URI`, else on one that lives as long as they do; with the MCP servers
/// from npm, which it installs, where that can be.
pub(crate) async fn run(opts: Opts) -> Result<()> {
    // What is skipped is said here once, since cargo hides what a passing test says.
    let mcp = real::tools()?;
    let server = match given_uri() {
        Some(_) => None,
        None => Some(Mongod::start().await?),
    };
    let mut command = cargo(["test", "--workspace", "--all-features"]);
    command.args(&opts.arguments);
    if let Some(server) = &server {
        command.env("MONGODB_URI", server.uri());
    }
    if mcp.is_none() {
        command.env(real::REQUIRED, "0");
    }
    succeed(&mut command)
}
