//! `lease mcp tools TOOL`.

use std::process::ExitCode;

use clap::Args;

use super::{At, WHAT};
use crate::connection::Connection;
use crate::output;

/// Show the tools that an MCP server offers. Opens a session if there is none.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    lease mcp tools playwright --tenant acme --project thesis --user ada\n  \
    lease mcp tools playwright --json | jq '.tools[].inputSchema'")]
pub(crate) struct Opts {
    #[command(flatten)]
    at: At,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let session = opts.at.session(&connection).await?;
    let (tool, whose, timeout) = (&session.tool, &session.whose, session.timeout);
    let (_, offered) = session
        .brains
        .ask(WHAT, |brain| async move {
            brain.mcp_tools(tool, whose, timeout).await
        })
        .await?;
    if json {
        output::json(&offered)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = offered.tools.into_iter().map(|tool| {
        let description = tool.description.unwrap_or_default();
        let first = description.lines().next().unwrap_or_default().to_owned();
        [tool.name, first]
    });
    output::table(["TOOL", "DESCRIPTION"], rows)?;
    Ok(ExitCode::SUCCESS)
}
