//! Makes started servers a replica set: transactions, retryable writes and change streams need one.

use std::time::Duration;

use anyhow::{Context as _, Result};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::error::ErrorKind;

use crate::command::direct_client;
use crate::wait::eventually;

pub(crate) const SET_NAME: &str = "rs0";

const ALREADY_INITIALIZED: i32 = 23;

/// Time for a node to be elected; generous, as machines that run tests are busy.
pub(crate) const ELECTION: Duration = Duration::from_secs(60);

/// Makes the server on this port a replica set of its own and waits until it takes writes.
///
/// Data from an earlier run is kept, also when the server then had another port.
pub async fn start_replication(port: u16) -> Result<()> {
    let client = direct_client(port).await?;
    match initiate(&client, members(&[port])).await {
        Err(error) if is_already_initialized(&error) => follow_port(&client, port).await?,
        outcome => outcome?,
    }
    wait_for_state(&client, "isWritablePrimary").await
}

pub(crate) async fn initiate(client: &Client, configuration: Document) -> Result<()> {
    client
        .database("admin")
        .run_command(doc! { "replSetInitiate": configuration })
        .await
        .context("replSetInitiate")?;
    Ok(())
}

/// Waits until the node's `hello` says yes to this field.
pub(crate) async fn wait_for_state(client: &Client, field: &str) -> Result<()> {
    eventually(field, ELECTION, async || {
        Ok(hello(client).await?.get_bool(field).unwrap_or(false))
    })
    .await
}

pub(crate) async fn hello(client: &Client) -> Result<Document> {
    let admin = client.database("admin");
    Ok(admin.run_command(doc! { "hello": 1 }).await?)
}

pub(crate) fn members(ports: &[u16]) -> Document {
    let members: Vec<_> = (0..)
        .zip(ports)
        .map(|(id, port): (i32, _)| doc! { "_id": id, "host": format!("127.0.0.1:{port}") })
        .collect();
    doc! { "_id": SET_NAME, "members": members }
}

fn is_already_initialized(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<mongodb::error::Error>();
    cause.is_some_and(|error| matches!(&*error.kind, ErrorKind::Command(reply) if reply.code == ALREADY_INITIALIZED))
}

/// The stored configuration names the member's address; under another port the node would not find itself in it.
async fn follow_port(client: &Client, port: u16) -> Result<()> {
    let admin = client.database("admin");
    let stored = admin
        .run_command(doc! { "replSetGetConfig": 1 })
        .await
        .context("replSetGetConfig")?;
    let stored = stored
        .get_document("config")
        .context("read the stored configuration")?;
    let wanted = format!("127.0.0.1:{port}");
    let member = stored
        .get_array("members")
        .ok()
        .and_then(|members| members.first());
    let host = member.and_then(|member| member.as_document()?.get_str("host").ok());
    if host == Some(&wanted) {
        return Ok(());
    }
    let version = stored.get_i32("version").context("read its version")?;
    let mut configuration = members(&[port]);
    configuration.insert("version", version + 1);
    configuration.insert("protocolVersion", 1_i64);
    admin
        .run_command(doc! { "replSetReconfig": configuration, "force": true })
        .await
        .context("replSetReconfig")?;
    Ok(())
}
