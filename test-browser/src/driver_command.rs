//! Commands that chromedriver has beyond the WebDriver standard.

use anyhow::{Context as _, Result};
use fantoccini::Client;
use fantoccini::wd::WebDriverCompatibleCommand;
use http::Method;
use serde_json::{Value, json};
use url::{ParseError, Url};

#[derive(Debug)]
struct DriverCommand {
    /// Below the session.
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for DriverCommand {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!(
            "session/{}/{}",
            session.unwrap_or_default(),
            self.path
        ))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

/// A command of the DevTools protocol, to the page.
pub(crate) async fn devtools(client: &Client, command: &str, parameters: Value) -> Result<Value> {
    let body = json!({ "cmd": command, "params": parameters });
    let path = "goog/cdp/execute";
    let answer = client.issue_cmd(DriverCommand { path, body }).await;
    answer.with_context(|| format!("ask the browser for {command}"))
}

/// What the browser has logged since it was last asked.
pub(crate) async fn browser_log(client: &Client) -> Result<Value> {
    let body = json!({ "type": "browser" });
    let path = "se/log";
    let answer = client.issue_cmd(DriverCommand { path, body }).await;
    answer.context("ask for the browser's log")
}
