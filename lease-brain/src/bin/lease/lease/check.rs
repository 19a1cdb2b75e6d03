//! `lease check TOKEN`.

use std::process::ExitCode;

use clap::Args;
use lease_shared::{CheckError, LeaseToken};
use serde_json::json;

use crate::connection::Connection;
use crate::output;

/// Ask whether a lease is still held, and restart its time to live.
///
/// To be called before every use of the resource. Exit code 76: stop using it. Exit code 69: nothing is known, ask again
/// within the time to live.
#[derive(Args)]
#[command(after_help = "Example:\n  lease check \"$LEASE_TOKEN\" || exit")]
pub(crate) struct Opts {
    /// The token that `lease acquire` printed; empty where nothing is limited, and so there is nothing to do.
    token: String,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    if opts.token.is_empty() {
        // What `acquire --export-env` gives where nothing is limited.
        return Ok(ExitCode::SUCCESS);
    }
    let token = LeaseToken::new(opts.token)?;
    let leases = connection.leases_by_token().await?;
    match leases.check_token(&token).await {
        Ok(()) if json => output::json(&json!({ "token": token, "held": true }))?,
        Ok(()) => {}
        Err(CheckError::Lost(lost)) => {
            if json {
                output::json(&json!({ "token": token, "held": false, "reason": lost.reason }))?;
            }
            return Err(CheckError::Lost(lost).into());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}
