//! `lease mcp call TOOL NAME [JSON]`.

use std::io::Read;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use lease_brain::api::ToolCall;
use serde_json::{Map, Value};

use super::{At, WHAT};
use crate::connection::Connection;
use crate::exit::{USAGE, coded};
use crate::output;

/// Call a tool in the user's session, which is opened if there is none.
///
/// Texts in the result are printed as they are, everything else as JSON. A result that the tool calls an error goes to
/// standard error, with exit code 1.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    lease mcp call playwright browser_navigate '{\"url\": \"http://localhost:8080/\"}' --tenant acme --project thesis --user ada")]
pub(crate) struct Opts {
    #[command(flatten)]
    at: At,
    /// Which of the server's tools, as `lease mcp tools` shows them.
    #[arg(help_heading = None::<&str>)]
    name: String,
    /// Its arguments, a JSON object; `-` reads it from standard input.
    #[arg(value_name = "JSON", default_value = "{}", help_heading = None::<&str>)]
    arguments: String,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let arguments = arguments(&opts.arguments)?;
    let session = opts.at.session(&connection).await?;
    let call = ToolCall {
        tenant: session.whose.tenant.clone(),
        project: session.whose.project.clone(),
        user: session.whose.user.clone(),
        name: opts.name,
        arguments,
    };
    let (tool, call, timeout) = (&session.tool, &call, session.timeout);
    let (_, reply) = session
        .brains
        .ask(WHAT, |brain| async move {
            brain.mcp_call(tool, call, timeout).await
        })
        .await?;
    let failed = reply.result["isError"] == Value::Bool(true);
    match (json, failed) {
        (true, _) => output::json(&reply.result)?,
        (false, false) => output::line(&words(&reply.result))?,
        (false, true) => eprintln!("lease: the tool failed: {}", words(&reply.result)),
    }
    Ok(match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn arguments(given: &str) -> anyhow::Result<Map<String, Value>> {
    let text = match given {
        "-" => {
            let mut bytes = Vec::new();
            std::io::stdin()
                .read_to_end(&mut bytes)
                .context("could not read standard input")?;
            String::from_utf8(bytes)
                .map_err(|_| coded(USAGE, "the arguments on standard input are not UTF-8 text"))?
        }
        given => given.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        let problem =
            format!("the arguments must be a JSON object, like '{{\"message\": \"hi\"}}': {error}");
        coded(USAGE, problem)
    })
}

/// The parts of a result, one after the other.
fn words(result: &Value) -> String {
    let parts = result["content"].as_array();
    let part = |part: &Value| match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text"), Some(text)) => lines(text),
        _ => output::printable(&part.to_string()),
    };
    match parts {
        Some(parts) if !parts.is_empty() => parts.iter().map(part).collect::<Vec<_>>().join("\n"),
        _ => output::printable(&result.to_string()),
    }
}

/// A server's text may have lines, but not steer the terminal.
fn lines(text: &str) -> String {
    let lines = text.lines().map(output::printable);
    lines.collect::<Vec<_>>().join("\n")
}
