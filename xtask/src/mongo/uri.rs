//! `cargo xtask mongo uri`.

use anyhow::{Result, bail};
use test_mongo::single_node_uri;

use super::dev_server::{DevServer, State};
use super::given_uri;

pub(super) async fn run() -> Result<()> {
    if let Some(uri) = given_uri() {
        println!("{uri}");
        return Ok(());
    }
    match DevServer::new().state().await {
        State::Running { port, .. } => println!("{}", single_node_uri(port)),
        State::Silent { pid } => {
            bail!("the server (process {pid}) does not answer; `cargo xtask mongo stop` ends it")
        }
        State::Stopped => bail!("no server runs; `cargo xtask mongo start` starts one"),
    }
    Ok(())
}
