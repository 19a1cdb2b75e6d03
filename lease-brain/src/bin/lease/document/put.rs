//! `lease document put`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use lease_brain::mcp::check_tool;
use lease_brain::tex::check_settings;
use lease_shared::definition::LayerDocument;

use super::At;
use crate::connection::Connection;
use crate::exit::{INVALID, coded};

/// Write a document. A lease definition, a tool and settings are checked first, and a broken one is refused.
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
            .map(drop)
            .and_then(|()| check_tool(&address, &text))
            .and_then(|()| check_settings(&address, &text))
            .context("not written (--no-validate writes it all the same)")?;
    }
    connection.definitions().await?.put(&address, &text).await?;
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> anyhow::Result<String> {
    let (name, bytes) = if file == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        ("standard input".to_owned(), read.map(|_| bytes))
    } else {
        (file.display().to_string(), std::fs::read(file))
    };
    let bytes = bytes.with_context(|| format!("could not read {name}"))?;
    String::from_utf8(bytes).map_err(|_| coded(INVALID, format!("{name} is not UTF-8 text")))
}
