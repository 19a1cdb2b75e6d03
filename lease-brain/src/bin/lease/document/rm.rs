//! `lease document rm`.

use std::process::ExitCode;

use clap::Args;

use super::At;
use crate::connection::Connection;

/// Remove a document. Leases that are held stay held.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    lease document rm _vance/config/lease/tex.yaml --tenant acme --project thesis")]
pub(crate) struct Opts {
    #[command(flatten)]
    at: At,
}

pub(crate) async fn run(opts: Opts, connection: Connection) -> anyhow::Result<ExitCode> {
    let address = opts.at.address()?;
    if !connection.definitions().await?.remove(&address).await? {
        anyhow::bail!("no document {address}");
    }
    Ok(ExitCode::SUCCESS)
}
