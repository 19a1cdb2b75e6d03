//! `@playwright/mcp` with Chromium.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use test_mcp::real::{PAGE, Playwright, Profile, browsers_of, processes_mentioning, tools};
use test_mongo::eventually;

use crate::asking::Session;

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn browser_starts_with_the_first_call_and_ends_with_the_delete() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let server = Playwright::http(&tools, Profile::Isolated).await?;
    let before = processes_mentioning(server.directory())?.len();
    let (session, _) = Session::open(&server.url()).await?;
    assert_eq!(server.browsers()?, 0);
    let answer = session
        .call("browser_navigate", json!({ "url": PAGE }))
        .await?;
    assert!(answer.contains("Page Title: Before"), "{answer}");
    assert_eq!(server.browsers()?, 1);
    assert_eq!(session.delete().await?, 200);
    eventually("the browser's end", LONG, async || {
        Ok(server.browsers()? == 0 && processes_mentioning(server.directory())?.len() == before)
    })
    .await?;
    assert_eq!(session.delete().await?, 404);
    Ok(())
}

#[tokio::test]
async fn drop_ends_the_browser_too() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let server = Playwright::http(&tools, Profile::OnDisk).await?;
    let (session, _) = Session::open(&server.url()).await?;
    session
        .call("browser_navigate", json!({ "url": PAGE }))
        .await?;
    let directory = server.directory().to_owned();
    assert_eq!(browsers_of(&directory)?, 1);
    assert!(directory.join("profile").exists());
    drop(server);
    assert!(processes_mentioning(&directory)?.is_empty());
    assert!(!directory.exists());
    Ok(())
}
