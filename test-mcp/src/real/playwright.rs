//! `@playwright/mcp` with Chromium.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use test_process::{browsers_of, surroundings};

use super::everything::text;
use super::server::Server;
use super::tools::Tools;

const PROGRAM: &str = "node_modules/@playwright/mcp/cli.js";

/// A page for the browser that needs no server: its title is `Before`, and `After` once its button is pressed.
pub const PAGE: &str =
    "data:text/html,<title>Before</title><button onclick=\"document.title='After'\">Press</button>";

/// What a browser remembers, and with whom it shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// In memory. The sessions of a server share one browser, which ends with the last of them.
    Isolated,
    /// On disk. One session at a time can have the browser; another's calls fail while it does.
    OnDisk,
}

/// A server whose sessions hold a browser, over streamable HTTP on loopback; it ends with this value.
///
/// The browser starts with a session's first call and ends with its DELETE. Both also end when this process is
/// killed. `Drop` blocks until they are gone.
pub struct Playwright(Server);

impl Playwright {
    /// Starts it and waits until it listens. No browser runs yet.
    pub async fn http(tools: &Tools, profile: Profile) -> Result<Self> {
        let directory = Server::directory_for("playwright")?;
        let mut config = config(tools, directory.path(), profile);
        // 0 leaves the choice of a free port to the system.
        config["server"] = json!({ "host": "127.0.0.1", "port": 0 });
        let config = write(&config, directory.path())?;
        let arguments = [OsStr::new("--config"), config.as_os_str()];
        let program = tools.servers.join(PROGRAM);
        let server = Server::start(tools, program, arguments, &[], directory);
        Ok(Self(server.await?))
    }

    /// Its endpoint. It answers under the name `localhost` alone, not under an address.
    pub fn url(&self) -> String {
        format!("http://localhost:{}/mcp", self.0.port())
    }

    /// How many browsers it has.
    pub fn browsers(&self) -> Result<usize> {
        browsers_of(self.directory())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// The folder of its log, the browser's profile, and all that they write.
    pub fn directory(&self) -> &Path {
        self.0.directory()
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        self.0.log_tail()
    }
}

impl Tools {
    /// The command line of the server that speaks over its standard input and output.
    ///
    /// Server and browser write below `directory`, which names them for [`browsers_of`], and which is the
    /// caller's to remove. Its path should be short, since the browser makes a socket below it.
    pub fn playwright_stdio(&self, directory: &Path, profile: Profile) -> Result<Vec<String>> {
        let config = write(&config(self, directory, profile), directory)?;
        let mut command = vec!["env".to_owned()];
        for (name, value) in surroundings(directory)? {
            command.push(format!("{name}={}", value.display()));
        }
        let program = self.servers.join(PROGRAM);
        command.extend([
            text(&self.node),
            text(&program),
            "--config".to_owned(),
            text(&config),
        ]);
        Ok(command)
    }
}

/// The browser calls nobody by itself, and runs as root and without a screen or a graphics card.
fn config(tools: &Tools, directory: &Path, profile: Profile) -> Value {
    let mut browser = json!({
        "browserName": "chromium",
        "isolated": profile == Profile::Isolated,
        "launchOptions": {
            "executablePath": tools.chromium,
            "headless": true,
            "chromiumSandbox": false,
            "args": [
                "--no-first-run",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        },
    });
    if profile == Profile::OnDisk {
        browser["userDataDir"] = json!(directory.join("profile"));
    }
    json!({ "browser": browser, "outputDir": directory.join("output") })
}

fn write(config: &Value, directory: &Path) -> Result<PathBuf> {
    let path = directory.join("config.json");
    fs::write(&path, config.to_string()).context("write Playwright's configuration")?;
    Ok(path)
}
