//! `lease tex …`: TeX documents, compiled by a brain.

mod compile;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::connection::Connection;

/// Compile TeX documents, each compilation under the lease that the settings name (`tex`).
#[derive(Args)]
pub(crate) struct Opts {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Compile(compile::Opts),
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    match opts.command {
        Command::Compile(opts) => compile::run(opts, connection, json).await,
    }
}
