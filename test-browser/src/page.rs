//! One browser with a page, and what tests do with it.

use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fantoccini::elements::Element;
use fantoccini::{Client, Locator};
use test_mongo::eventually;

use crate::console::{self, ConsoleMessage};
use crate::driver_command::devtools;
use crate::view::View;

/// How long a page may take to show what a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A browser of its own with one page: a [`Client`], by which all of WebDriver can be had, and more.
#[derive(Debug)]
pub struct Page {
    client: Client,
}

impl Deref for Page {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Page {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// From now on the page is seen so.
    pub async fn look_through(&self, view: View) -> Result<()> {
        for (command, parameters) in view.commands() {
            devtools(self, command, parameters).await?;
        }
        Ok(())
    }

    /// The first element of that CSS selector, once there is one, within [`PATIENCE`].
    pub async fn see(&self, css: &str) -> Result<Element> {
        let wait = self.wait().at_most(PATIENCE);
        let found = wait.for_element(Locator::Css(css)).await;
        found.with_context(|| format!("{css} is not on the page"))
    }

    /// Its text, as a person sees it.
    pub async fn text(&self, css: &str) -> Result<String> {
        let text = self.see(css).await?.text().await;
        text.with_context(|| format!("read {css}"))
    }

    /// Waits until its text contains `wanted`, within [`PATIENCE`]; it may be replaced meanwhile.
    pub async fn until_text(&self, css: &str, wanted: &str) -> Result<()> {
        let what = format!("{wanted:?} in {css}");
        eventually(&what, PATIENCE, async || {
            let element = self.find(Locator::Css(css)).await?;
            let text = element.text().await?;
            ensure!(text.contains(wanted), "its text is {text:?}");
            Ok(true)
        })
        .await
    }

    /// Clicks on it.
    pub async fn click(&self, css: &str) -> Result<()> {
        let clicked = self.see(css).await?.click().await;
        clicked.with_context(|| format!("click on {css}"))
    }

    /// Types `text` into a field, in place of what is there.
    pub async fn fill(&self, css: &str, text: &str) -> Result<()> {
        let field = self.see(css).await?;
        let cleared = field.clear().await;
        cleared.with_context(|| format!("clear {css}"))?;
        let typed = field.send_keys(text).await;
        typed.with_context(|| format!("type into {css}"))
    }

    /// Writes what is seen to a PNG file, and makes its folder.
    pub async fn screenshot_to(&self, path: &Path) -> Result<()> {
        let picture = self.screenshot().await.context("take a screenshot")?;
        let shown = path.display();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("create {shown}'s folder"))?;
        }
        std::fs::write(path, picture).with_context(|| format!("write {shown}"))
    }

    /// What the console has got since it was last asked, this way or by [`console_errors`](Self::console_errors).
    pub async fn console(&self) -> Result<Vec<ConsoleMessage>> {
        console::take(self).await
    }

    /// The errors among that, such as exceptions, broken policies, and answers of 400 or more.
    pub async fn console_errors(&self) -> Result<Vec<ConsoleMessage>> {
        let mut messages = self.console().await?;
        messages.retain(ConsoleMessage::is_error);
        Ok(messages)
    }
}
