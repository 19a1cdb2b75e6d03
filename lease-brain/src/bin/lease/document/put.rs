//! `lease document put`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use lease_brain::mcp::check_tool;
use lease_brain::tex::check_settings;
use lease_shared::definition::{DocumentAddress, DocumentError, Ignored, Layer, LayerDocument};

use super::At;
use crate::connection::Connection;
use crate::exit::{INVALID, coded};
use crate::output;

/// Write a document. A lease definition, a tool and settings are checked first, and a broken one is refused.
///
/// What nobody will go by is written too, and told on standard error: a field that the document's layer may not set, a path
/// that nothing reads.
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
    let in_vain = match in_vain(&address, &text) {
        Ok(in_vain) => in_vain,
        Err(_) if opts.no_validate => Vec::new(),
        Err(broken) => {
            let problem = "not written (--no-validate writes it all the same)";
            return Err(anyhow::Error::from(broken).context(problem));
        }
    };
    connection.definitions().await?.put(&address, &text).await?;
    for line in in_vain {
        eprintln!("written, but {}", output::printable(&line));
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks a document, and says what of it does nothing, a line each.
fn in_vain(address: &DocumentAddress, text: &str) -> Result<Vec<String>, DocumentError> {
    let definition = LayerDocument::check(address, text)?;
    let is_read = check_tool(address, text)? | check_settings(address, text)?;
    let Some(definition) = definition else {
        let path = address.path();
        let nobody =
            format!("nothing reads {path}; a lease definition is at _vance/config/lease/NAME.yaml");
        return Ok(if is_read { Vec::new() } else { vec![nobody] });
    };
    let ignored = Layer::of(address).map(|layer| definition.ignored_in(layer));
    let line = |said: Ignored| {
        let Ignored { field, layer, .. } = said;
        format!("ignored: {field} (a {layer} document may not set it)")
    };
    Ok(ignored.unwrap_or_default().into_iter().map(line).collect())
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
