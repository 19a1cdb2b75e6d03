//! `lease mcp close TOOL`.

use std::process::ExitCode;

use clap::Args;

use super::{At, WHAT};
use crate::connection::Connection;
use crate::output;

/// End the user's session, and give its lease back at once.
///
/// Without a session there is nothing to do, and that is no failure.
#[derive(Args)]
#[command(
    after_help = "Example:\n  lease mcp close playwright --tenant acme --project thesis --user ada"
)]
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
    let (brain, reply) = session
        .brains
        .ask(WHAT, |brain| async move {
            brain.mcp_close(tool, whose, timeout).await
        })
        .await?;
    match (json, reply.closed) {
        (true, _) => output::json(&reply)?,
        (false, true) => output::line("the session has ended")?,
        (false, false) => output::line(&format!(
            "the brain at {} has no such session",
            brain.endpoint()
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
