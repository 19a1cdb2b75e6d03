//! `lease document list`.

use std::process::ExitCode;

use clap::Args;
use lease_shared::definition::DocumentAddress;
use serde_json::json;

use crate::connection::Connection;
use crate::output;

/// List the documents that are stored.
#[derive(Args)]
#[command(after_help = "Example:\n  lease document list --tenant acme")]
pub(crate) struct Opts {
    /// Only of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only of this project.
    #[arg(long)]
    project: Option<String>,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let definitions = connection.definitions().await?;
    let found = definitions
        .documents()
        .list(opts.tenant.as_deref(), opts.project.as_deref())
        .await?;
    if json {
        let entry = |at: &DocumentAddress| json!({ "tenant": at.tenant(), "project": at.project(), "path": at.path() });
        output::json(&found.iter().map(entry).collect::<Vec<_>>())?;
    } else if found.is_empty() {
        eprintln!("no documents match");
    } else {
        let row = |at: &DocumentAddress| [at.tenant(), at.project(), at.path()].map(str::to_owned);
        output::table(["TENANT", "PROJECT", "PATH"], found.iter().map(row))?;
    }
    Ok(ExitCode::SUCCESS)
}
