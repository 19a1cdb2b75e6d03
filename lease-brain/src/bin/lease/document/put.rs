//! `lease document put`.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use lease_shared::definition::LayerDocument;

use super::At;
use crate::connection::Connection;
use crate::exit::{INVALID, coded};

/// Write a document. A lease definition is checked first, and a broken one is refused.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    lease document put _vance/config/lease/tex.yaml --tenant _vance --project _tenant --file tex.yaml")]
pub(crate) struct Opts {
    #[command(flatten)]
    at: At,
    /// The file to read, `-` for standard input.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Write a lease definition even if it is broken. Nobody gets the lease then.
    #[arg(long)]
    no_validate: bool,
}

pub(crate) async fn run(opts: Opts, connection: Connection) -> anyhow::Result<ExitCode> {
    let address = opts.at.address()?;
    let text = read(&opts.file)?;
    if !opts.no_validate {
        LayerDocument::check(&address, &text)
            .context("not written (--no-validate writes it all the same)")?;
    }
    connection.definitions().await?.put(&address, &text).await?;
    Ok(ExitCode::SUCCESS)
}

fn read(file: &PathBuf) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin()
            .read_to_end(&mut bytes)
            .context("could not read standard input")?;
    } else {
        bytes =
            std::fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
    }
    String::from_utf8(bytes)
        .map_err(|_| coded(INVALID, format!("{} is not UTF-8 text", file.display())))
}
