//! Commands to one node, by a client that is made for them and belongs to the caller's runtime.

use std::time::Duration;

use anyhow::{Context as _, Result};
use mongodb::Client;
use mongodb::bson::Document;
use mongodb::options::ClientOptions;

use crate::replication::SET_NAME;

/// A client that talks to the one node at this port, whatever its state in the replica set.
pub async fn direct_client(port: u16) -> Result<Client> {
    client(&direct_uri(port)).await
}

/// Runs one command on the `admin` database of the server at `uri`.
pub async fn admin_command(uri: &str, command: Document) -> Result<Document> {
    let name = command.keys().next().cloned().unwrap_or_default();
    client(uri)
        .await?
        .database("admin")
        .run_command(command)
        .await
        .with_context(|| format!("run {name}"))
}

/// The connection string of the replica set of one node at this port.
pub fn single_node_uri(port: u16) -> String {
    format!("mongodb://127.0.0.1:{port}/?replicaSet={SET_NAME}")
}

pub(crate) fn direct_uri(port: u16) -> String {
    format!("mongodb://127.0.0.1:{port}/?directConnection=true")
}

/// Short time limits, since what these clients ask is asked again by those who wait.
async fn client(uri: &str) -> Result<Client> {
    let mut options = ClientOptions::parse(uri)
        .await
        .context("parse the MongoDB URI")?;
    options.connect_timeout = Some(Duration::from_secs(2));
    options.server_selection_timeout = Some(Duration::from_secs(3));
    Client::with_options(options).context("make a client")
}
