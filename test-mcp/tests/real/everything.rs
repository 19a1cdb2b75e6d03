//! `server-everything`.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::json;
use test_mcp::real::{Everything, SessionEvent, processes_mentioning, tools};

use crate::asking::Session;

#[tokio::test]
async fn session_lives_until_its_delete() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let server = Everything::http(&tools).await?;
    let (session, answer) = Session::open(&server.url()).await?;
    assert_eq!(answer["serverInfo"]["name"], "mcp-servers/everything");
    let echo = session.call("echo", json!({ "message": "hello" })).await?;
    assert_eq!(echo, "Echo: hello");
    let opened = SessionEvent::Opened(session.id().to_owned());
    assert_eq!(server.session_events()?, std::slice::from_ref(&opened));
    assert!(server.has_session(session.id()).await?);
    assert_eq!(session.delete().await?, 200);
    assert_eq!(session.delete().await?, 400);
    let ended = SessionEvent::Ended(session.id().to_owned());
    assert_eq!(server.session_events()?, [opened, ended]);
    assert!(!server.has_session(session.id()).await?);
    Ok(())
}

#[tokio::test]
async fn it_listens_on_loopback_alone() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let server = Everything::http(&tools).await?;
    let url = reqwest::Url::parse(&server.url())?;
    let port = url.port().context("a port")?;
    assert_eq!(listening_addresses(port)?, ["0100007F"]);
    Ok(())
}

#[tokio::test]
async fn drop_leaves_neither_process_nor_folder() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let server = Everything::http(&tools).await?;
    let directory = server.directory().to_owned();
    assert_eq!(processes_mentioning(&directory)?, [server.pid()]);
    drop(server);
    assert!(processes_mentioning(&directory)?.is_empty());
    assert!(!directory.exists());
    Ok(())
}

/// As the kernel writes them: 127.0.0.1 is `0100007F`.
fn listening_addresses(port: u16) -> Result<Vec<String>> {
    let mut addresses = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // There is no second one where IPv6 is switched off.
        for line in fs::read_to_string(table).unwrap_or_default().lines() {
            let mut fields = line.split_whitespace().skip(1);
            let (local, _remote, state) = (fields.next(), fields.next(), fields.next());
            if state == Some("0A")
                && let Some((address, hex)) = local.and_then(|local| local.split_once(':'))
                && u16::from_str_radix(hex, 16)? == port
            {
                addresses.push(address.to_owned());
            }
        }
    }
    Ok(addresses)
}
