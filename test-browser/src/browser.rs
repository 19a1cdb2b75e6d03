//! The driver and its browsers.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use fantoccini::ClientBuilder;
use fantoccini::wd::Capabilities;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_mongo::log_tail;
use test_process::{Process, surroundings};
use tokio::time::{Instant, sleep, timeout};

use crate::page::Page;
use crate::tools::Tools;
use crate::view::View;

/// How long the driver may take to listen, and a browser to open.
const START: Duration = Duration::from_secs(60);

const LISTENS: &str = "ChromeDriver was started successfully on port ";

/// It calls nobody by itself, and runs as root, without a screen or a graphics card, and in a container whose
/// `/dev/shm` is small.
const ARGUMENTS: [&str; 8] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// A driver on loopback with the browsers that it opens; a test can have one of its own.
///
/// They end with this value, and also when this process is killed. `Drop` blocks until they are gone.
#[derive(Debug)]
pub struct Browser {
    // Dropped in this order.
    driver: Process,
    directory: TempDir,
    port: u16,
    chromium: String,
    opened: AtomicUsize,
}

impl Browser {
    /// Starts the driver and waits until it listens. No browser runs yet.
    pub async fn start(tools: &Tools) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("browser-")
            .tempdir()
            .context("create the driver's folder")?;
        let log = directory.path().join("driver.log");
        let mut command = Command::new(&tools.chromedriver);
        command
            // 0 leaves the choice of a free port to the system.
            .arg("--port=0")
            // By this it names its folder in its command line.
            .arg(format!(
                "--log-path={}",
                directory.path().join("trace.log").display()
            ))
            .envs(surroundings(directory.path())?)
            .current_dir(directory.path());
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let mut driver = Process::spawn(&command, file, directory.path())?;
        let port = listening_port(&mut driver, &log).await?;
        Ok(Self {
            driver,
            directory,
            port,
            chromium: tools.chromium.to_string_lossy().into_owned(),
            opened: AtomicUsize::new(0),
        })
    }

    /// Opens a browser with a fresh profile and an empty page.
    pub async fn open(&self, view: View) -> Result<Page> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let profile = self.directory().join(format!("profile-{number}"));
        let url = format!("http://127.0.0.1:{}/", self.port);
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(self.capabilities(&profile));
        let client = timeout(START, builder.connect(&url))
            .await
            .with_context(|| format!("no browser after {START:?}"))?
            .context("open a browser")?;
        let page = Page::new(client);
        page.look_through(view).await?;
        Ok(page)
    }

    /// The driver's process id.
    pub fn pid(&self) -> u32 {
        self.driver.id()
    }

    /// The folder of its log, the browsers' profiles, and all that they write.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn capabilities(&self, profile: &Path) -> Capabilities {
        let mut arguments = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={}", profile.display()));
        let options = json!({ "binary": self.chromium, "args": arguments });
        let mut capabilities = Capabilities::new();
        let mut set = |name: &str, value: Value| capabilities.insert(name.to_owned(), value);
        set("browserName", json!("chrome"));
        set("goog:chromeOptions", options);
        set("goog:loggingPrefs", json!({ "browser": "ALL" }));
        capabilities
    }
}

async fn listening_port(driver: &mut Process, log: &Path) -> Result<u16> {
    let deadline = Instant::now() + START;
    loop {
        // Its end is looked at before its log, so that the log is complete once it has ended.
        let ended = driver.ended()?;
        let text = fs::read(log).context("read the driver's log")?;
        if let Some(port) = port_in(&String::from_utf8_lossy(&text)) {
            return Ok(port);
        }
        if let Some(status) = ended {
            bail!("chromedriver ended at once ({status}); {}", log_tail(log));
        }
        if Instant::now() >= deadline {
            bail!(
                "chromedriver does not listen after {START:?}; {}",
                log_tail(log)
            );
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Only of a whole line.
fn port_in(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once(LISTENS)?;
    rest.split_once(".\n")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::port_in;

    #[test]
    fn half_a_line_names_no_port() {
        let line = "ChromeDriver was started successfully on port 43753.\n";
        assert_eq!(port_in(line), Some(43753));
        assert_eq!(port_in(&line[..line.len() - 3]), None);
        assert_eq!(port_in("Starting ChromeDriver 156 on port 0\n"), None);
    }
}
