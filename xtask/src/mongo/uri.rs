//! `cargo xtask mongo uri`.

use anyhow::{Result, bail};
use test_mongo::single_node_uri;

use super::dev_server::{DevServer, State};
use super::given_uri;

pub(super) async fn run() -> Result<()> {
    println!("{}", of_server().await?);
    Ok(())
}

/// Of the server that the environment names, or else of ours, if it runs.
pub(super) async fn of_server() -> Result<String> {
    if let Some(uri) = given_uri().await {
        return Ok(uri);
    }
    match DevServer::new().state().await {
        State::Running { port, .. } => Ok(single_node_uri(port)),
        State::Silent { pid } => {
            bail!("the server (process {pid}) does not answer; `cargo xtask mongo stop` ends it")
        }
        State::Stopped => bail!("no server runs; `cargo xtask mongo start` starts one"),
    }
}
