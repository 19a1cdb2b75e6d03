//! `lease document get`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::At;
use crate::connection::Connection;
use crate::output;

/// Print a document, to the byte as it was put.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    lease document get _vance/config/lease/tex.yaml --tenant _vance --project _tenant")]
pub(crate) struct Opts {
    #[command(flatten)]
    at: At,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let address = opts.at.address()?;
    let definitions = connection.definitions().await?;
    let Some(text) = definitions.documents().get(&address).await? else {
        anyhow::bail!("no document {address}");
    };
    if json {
        output::json(&json!({
            "tenant": address.tenant(), "project": address.project(), "path": address.path(), "content": text,
        }))?;
    } else {
        output::exactly(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}
