//! Signing in and out.

use serde_json::{Value, json};
use test_browser::{View, tools};

use super::Desk;
use crate::insights::World;
use crate::insights::tokens::token;

/// Everything that a script of the page could read.
const READABLE: &str = "JSON.stringify([
    location.href, document.referrer, history.state, document.cookie, performance.getEntries().map(it => it.name),
    { ...localStorage }, { ...sessionStorage }, document.documentElement.outerHTML])";

async fn assert_secret(desk: &Desk, token: &str) {
    assert_eq!(desk.js("document.cookie").await, "");
    let Value::String(readable) = desk.js(READABLE).await else {
        panic!("no text");
    };
    assert!(readable.contains("/insights/acme"), "{readable}");
    for part in token.split('.') {
        assert!(!readable.contains(part), "{readable}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_opens_the_page_and_is_never_seen_again() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let desk = Desk::new(&tools, &world, View::DESKTOP).await;
    let good = token(json!({ "sub": "ada" }));

    desk.sign_in("/insights/acme", "nonsense").await;
    desk.until_text(".state", "Not accepted").await.unwrap();
    // The next one is tried where one is.
    desk.fill("#token", &good).await.unwrap();
    desk.click("#sign-in button").await.unwrap();
    desk.until_text("h1", "Overview").await.unwrap();
    desk.until_text(".brand", "Leases of acme").await.unwrap();
    assert_eq!(desk.text("#subject").await.unwrap(), "ada");
    desk.live().await;
    assert_secret(&desk, &good).await;
    desk.click("[data-tab=holders]").await.unwrap();
    desk.until_text("h1", "Holders").await.unwrap();
    assert_secret(&desk, &good).await;
    desk.back().await.unwrap();
    desk.until_text("h1", "Overview").await.unwrap();
    assert_secret(&desk, &good).await;
    desk.is_quiet_but_for_refusals().await;

    desk.click("#sign-out").await.unwrap();
    desk.until_text("h1", "Sign in").await.unwrap();
    for place in ["/insights/acme/holders", "/insights/acme"] {
        desk.goto(place).await;
        desk.until_text("h1", "Sign in").await.unwrap();
    }
    // Where the tenant is not known, the token tells.
    desk.sign_in("/insights", &good).await;
    desk.until_text(".brand", "Leases of acme").await.unwrap();
    desk.is_quiet_but_for_refusals().await;
}
