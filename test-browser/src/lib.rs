//! A real browser for tests: pages opened, used and judged in headless Chromium, driven over WebDriver.
//!
//! - [`tools`]: what that needs, or the reason on stderr why a test with it is skipped. Whether a lack is an error,
//!   the variable [`BROWSER_E2E`](REQUIRED) says.
//! - [`Browser`]: the driver and its browsers, which end with it, or with a process that is killed.
//! - [`Page`]: a fantoccini [`Client`] with what tests ask again and again.
//! - [`axe`]: what is wrong for people who use a keyboard or a screen reader.
//!
//! ```no_run
//! use test_browser::{Browser, View, axe, tools};
//!
//! # async fn example() -> anyhow::Result<()> {
//! let Some(tools) = tools()? else { return Ok(()) };
//! let browser = Browser::start(&tools).await?;
//! let page = browser.open(View::PHONE.dark()).await?;
//! page.goto("http://127.0.0.1:8080/").await?;
//! page.fill("#name", "Ada").await?;
//! page.click("button").await?;
//! page.until_text("#greeting", "Hello, Ada").await?;
//! assert_eq!(axe::grave_violations(&page).await?, []);
//! assert_eq!(page.console_errors().await?, []);
//! # Ok(())
//! # }
//! ```

pub mod axe;
mod browser;
mod console;
mod driver_command;
mod page;
mod tools;
mod view;

pub use browser::Browser;
pub use console::ConsoleMessage;
pub use fantoccini::{self, Client, Locator};
pub use page::{PATIENCE, Page};
pub use tools::{REQUIRED, Tools, find, tools};
pub use view::{Scheme, View};
