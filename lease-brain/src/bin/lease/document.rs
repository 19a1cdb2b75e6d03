//! `lease document …`: the configuration documents of all layers.

mod get;
mod list;
mod put;
mod rm;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use lease_shared::InvalidName;
use lease_shared::definition::DocumentAddress;

use crate::connection::Connection;

/// Read and write configuration documents.
///
/// The system layer is tenant `_vance`, project `_tenant`; a tenant's own layer is its project `_tenant`.
#[derive(Args)]
pub(crate) struct Opts {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Put(put::Opts),
    Get(get::Opts),
    List(list::Opts),
    Rm(rm::Opts),
}

/// Which document.
#[derive(Args)]
struct At {
    /// Its path, for example `_vance/config/lease/tex.yaml`.
    path: String,
    /// The tenant; `_vance` for the system layer.
    #[arg(long, env = "LEASE_TENANT")]
    tenant: String,
    /// The project; `_tenant` for the tenant's own layer.
    #[arg(long, env = "LEASE_PROJECT")]
    project: String,
}

impl At {
    fn address(&self) -> Result<DocumentAddress, InvalidName> {
        DocumentAddress::new(&self.tenant, &self.project, &self.path)
    }
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    match opts.command {
        Command::Put(opts) => put::run(opts, connection).await,
        Command::Get(opts) => get::run(opts, connection, json).await,
        Command::List(opts) => list::run(opts, connection, json).await,
        Command::Rm(opts) => rm::run(opts, connection).await,
    }
}
