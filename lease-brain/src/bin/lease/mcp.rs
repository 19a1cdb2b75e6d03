//! `lease mcp …`: tools at MCP servers, through a brain.

mod call;
mod close;
mod tools;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use lease_brain::api::ToolsCall;
use lease_brain::mcp::ToolName;

use crate::brain::{Asked, BrainAt, Brains};
use crate::connection::{Connection, Holder};

/// Use tools at MCP servers, each user's session under the lease that the tool's document names.
///
/// A session is opened at the first call and kept by the brain that opened it, until it has not been used for its lease's
/// time to live, is closed, or is revoked. Exit codes: 0 done, 1 the tool or its server refused, 69 the server, a brain or the
/// store is unavailable, or what the call did is unknown, 75 busy, 76 the session was revoked, 78 not defined or not valid.
#[derive(Args)]
pub(crate) struct Opts {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Tools(tools::Opts),
    Call(call::Opts),
    Close(close::Opts),
}

/// Whose session at which tool, and who keeps it.
#[derive(Args)]
struct At {
    /// The tool: the name of its document.
    tool: String,
    /// How long to wait for the answer at most. A call that is given up is cancelled.
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = lease_brain::args::duration)]
    timeout: Duration,
    #[command(flatten)]
    holder: Holder,
    #[command(flatten)]
    brain: BrainAt,
}

/// [`At`], judged.
struct Session {
    tool: String,
    whose: ToolsCall,
    timeout: Duration,
    brains: Brains,
}

/// A call may have been made, and may not be repeatable.
const WHAT: Asked<'static> = Asked {
    unknown: "look before you repeat it",
};

impl At {
    async fn session(self, connection: &Connection) -> anyhow::Result<Session> {
        let tool = ToolName::new(&self.tool)?;
        let tenancy = self.holder.tenancy()?;
        let database = connection.database().await?;
        Ok(Session {
            brains: self.brain.find_session(&database, &tool, &tenancy).await?,
            tool: tool.as_str().to_owned(),
            whose: ToolsCall {
                tenant: tenancy.tenant().to_owned(),
                project: tenancy.project().to_owned(),
                user: tenancy.user().to_owned(),
            },
            timeout: self.timeout,
        })
    }
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    match opts.command {
        Command::Tools(opts) => tools::run(opts, connection, json).await,
        Command::Call(opts) => call::run(opts, connection, json).await,
        Command::Close(opts) => close::run(opts, connection, json).await,
    }
}
