//! `lease check TOKEN`.

use std::process::ExitCode;

use clap::Args;
use lease_shared::{CheckError, LeaseToken};
use serde_json::json;

use crate::connection::Connection;
use crate::exit::{USAGE, coded};
use crate::output;

/// Ask whether a lease is still held, and restart its time to live.
///
/// To be called before every use of the resource. Exit code 76: stop using it. Exit code 69: nothing is known, ask again
/// within the time to live.
#[derive(Args)]
#[command(after_help = "Example:\n  lease check \"$LEASE_TOKEN\" || exit")]
pub(crate) struct Opts {
    /// The token that `lease acquire` printed; `none` where nothing is limited, and so there is nothing to do.
    token: String,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let Some(token) = token(opts.token)? else {
        return Ok(ExitCode::SUCCESS);
    };
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

/// What `acquire --export-env` gives in place of a token where nothing is limited.
pub(super) const NO_TOKEN: &str = "none";

/// The token to ask about; nothing where nothing is limited. An empty one is what a shell has after an acquire that failed,
/// which must not look like a lease.
pub(super) fn token(given: String) -> anyhow::Result<Option<LeaseToken>> {
    match given.as_str() {
        NO_TOKEN => Ok(None),
        "" => Err(coded(
            USAGE,
            "the token is empty: the acquire before it failed, or LEASE_TOKEN is not set",
        )),
        _ => Ok(Some(LeaseToken::new(given)?)),
    }
}
