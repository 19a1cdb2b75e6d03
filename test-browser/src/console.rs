//! What the browser says about a page.

use anyhow::{Context as _, Result};
use fantoccini::Client;
use serde::Deserialize;

use crate::driver_command::browser_log;

/// A line of the browser's console.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ConsoleMessage {
    /// `SEVERE` for errors, `WARNING`, `INFO`, `DEBUG`.
    pub level: String,
    /// Who says it: `security` of a broken `Content-Security-Policy`, `network` of an answer of 400 or more,
    /// `javascript` of an exception (a forbidden `eval` is one), `console-api` for the page itself.
    pub source: String,
    /// With the place in front.
    pub message: String,
}

impl ConsoleMessage {
    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.level == "SEVERE"
    }

    /// Whether it is about an answer of 400 or more, which a test may have asked for.
    pub fn is_refusal(&self) -> bool {
        self.source == "network"
    }
}

/// What the console has got since it was last asked.
pub(crate) async fn take(client: &Client) -> Result<Vec<ConsoleMessage>> {
    serde_json::from_value(browser_log(client).await?).context("read the browser's log")
}
