//! `lease release TOKEN`.

use std::process::ExitCode;

use clap::Args;
use lease_shared::Release;
use serde_json::json;

use super::check::token;
use crate::connection::{Connection, asked};
use crate::output;

/// Give a lease back. Doing so twice does no harm.
#[derive(Args)]
#[command(after_help = "Example:\n  lease release \"$LEASE_TOKEN\"")]
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
    let release = asked(leases.release_token(&token).await)?;
    leases.close().await;
    let released = release == Release::Released;
    if json {
        output::json(&json!({ "token": token, "released": released }))?;
    } else if !released {
        eprintln!("lease: {token} was not held any more: released, or reaped, before");
    }
    Ok(ExitCode::SUCCESS)
}
