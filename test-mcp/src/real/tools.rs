//! What the real servers need: Node, npm to install them once, and a browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail, ensure};
use test_process::npm::Packages;
use test_process::{on_path, unless_skipped};

/// The variable that says whether tests with the real servers are required: `1` makes it an error to lack what
/// they need, `0` skips them without looking. Without it they run where what they need is there.
pub const REQUIRED: &str = "MCP_E2E";

const SERVERS: Packages = Packages {
    what: "MCP servers",
    folder: "mcp",
    package: include_str!("../../npm/package.json"),
    lock: include_str!("../../npm/package-lock.json"),
};

/// The oldest major version that the servers' dependencies run on.
const OLDEST_NODE: u32 = 20;

/// The programs and the installed servers.
#[derive(Clone, Debug)]
pub struct Tools {
    pub(super) node: PathBuf,
    pub(super) chromium: PathBuf,
    /// The folder in which npm has installed the servers.
    pub(super) servers: PathBuf,
}

/// For tests: what the real servers need, or none after a line on stderr that says why the test is skipped.
///
/// Whether a lack is an error, [`MCP_E2E`](REQUIRED) says. Blocks, for some seconds when it installs.
pub fn tools() -> Result<Option<Tools>> {
    tools_for("tests with real MCP servers")
}

/// As [`tools`], for what the line on stderr then calls skipped.
pub fn tools_for(what: &str) -> Result<Option<Tools>> {
    unless_skipped(REQUIRED, what, find)
}

/// Finds Node and Chromium on PATH, and installs the servers into `target/tools/mcp` unless they are there.
pub fn find() -> Result<Tools> {
    static FOUND: Mutex<Option<Tools>> = Mutex::new(None);
    // Held while searching, so that the threads of a test program do not all search.
    let mut found = FOUND.lock().unwrap_or_else(|broken| broken.into_inner());
    if let Some(tools) = &*found {
        return Ok(tools.clone());
    }
    let node = on_path("node").context("node is missing (Debian: apt-get install nodejs npm)")?;
    check_version(&node)?;
    let chromium =
        on_path("chromium").context("chromium is missing (Debian: apt-get install chromium)")?;
    let servers = SERVERS.install_once(&test_mongo::paths::tools())?;
    let tools = Tools {
        node,
        chromium,
        servers,
    };
    Ok(found.insert(tools).clone())
}

fn check_version(node: &Path) -> Result<()> {
    let shown = node.display();
    let output = Command::new(node)
        .arg("--version")
        .output()
        .with_context(|| format!("run {shown}"))?;
    ensure!(
        output.status.success(),
        "{shown} does not run ({})",
        output.status
    );
    let version = String::from_utf8_lossy(&output.stdout);
    let version = version.trim();
    if is_too_old(version) {
        bail!(
            "{shown} is {version}, and {OLDEST_NODE} or newer is needed (Debian 13 has it; else nodejs.org)"
        );
    }
    Ok(())
}

/// What is not understood is let through.
fn is_too_old(version: &str) -> bool {
    let major = version.trim_start_matches('v').split('.').next();
    major
        .and_then(|major| major.parse::<u32>().ok())
        .is_some_and(|major| major < OLDEST_NODE)
}

#[cfg(test)]
mod tests {
    use super::is_too_old;

    #[test]
    fn old_node_is_refused() {
        assert!(is_too_old("v18.20.4"));
        assert!(!is_too_old("v20.19.2"));
        assert!(!is_too_old("v100.0.0"));
        assert!(!is_too_old("a nightly build"));
    }
}
