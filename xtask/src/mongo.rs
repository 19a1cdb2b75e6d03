//! `cargo xtask mongo start | stop | uri`: a server for people, which outlives the terminal.

mod dev_server;
mod start;
mod stop;
mod uri;

use std::env;

use anyhow::Result;
use dev_server::{DevServer, State};

/// Starts, stops and names the server.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Start it; it runs until `stop`, and its data stays in target/mongo/dev
    #[command(
        after_help = "Example: cargo xtask mongo start && export MONGODB_URI=$(cargo xtask mongo uri)"
    )]
    Start,
    /// Stop it
    #[command(after_help = "Example: cargo xtask mongo stop")]
    Stop,
    /// Print its connection string and nothing else
    #[command(after_help = "Example: mongosh $(cargo xtask mongo uri)")]
    Uri,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Start => start::run().await,
        Command::Stop => stop::run().await,
        Command::Uri => uri::run().await,
    }
}

/// The connection string that people are to use.
pub(crate) async fn uri() -> Result<String> {
    uri::of_server().await
}

/// Does the server for people run?
pub(crate) async fn runs() -> bool {
    !matches!(DevServer::new().state().await, State::Stopped)
}

/// The server that the environment names, which goes before any of ours. One of ours that has been stopped is named by
/// nobody: the shell only still has what `up` told it.
pub(crate) async fn given_uri() -> Option<String> {
    let uri = env::var("MONGODB_URI").ok().filter(|uri| !uri.is_empty())?;
    let ours = DevServer::new();
    let is_over = ours.is_named_by(&uri) && matches!(ours.state().await, State::Stopped);
    (!is_over).then_some(uri)
}
