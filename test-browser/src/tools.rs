//! What a driven browser needs: Chromium, its driver, and npm to install axe once.

use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context as _, Result};
use test_process::npm::Packages;
use test_process::{on_path, unless_skipped};

/// The variable that says whether tests in a browser are required: `1` makes it an error to lack what they need, `0`
/// skips them without looking. Without it they run where what they need is there.
pub const REQUIRED: &str = "BROWSER_E2E";

const AXE: Packages = Packages {
    what: "axe-core",
    folder: "axe",
    package: include_str!("../npm/package.json"),
    lock: include_str!("../npm/package-lock.json"),
};

/// The programs, and the script that judges pages.
#[derive(Clone, Debug)]
pub struct Tools {
    pub(crate) chromium: PathBuf,
    pub(crate) chromedriver: PathBuf,
    pub(crate) axe: PathBuf,
}

/// For tests: what a browser needs, or none after a line on stderr that says why the test is skipped.
///
/// Whether a lack is an error, [`BROWSER_E2E`](REQUIRED) says. Blocks, for some seconds when it installs.
pub fn tools() -> Result<Option<Tools>> {
    unless_skipped(REQUIRED, "tests in a browser", find)
}

/// Finds Chromium and its driver on PATH, and installs axe into `target/tools/axe` unless it is there.
pub fn find() -> Result<Tools> {
    static FOUND: Mutex<Option<Tools>> = Mutex::new(None);
    // Held while searching, so that the threads of a test program do not all search.
    let mut found = FOUND.lock().unwrap_or_else(|broken| broken.into_inner());
    if let Some(tools) = &*found {
        return Ok(tools.clone());
    }
    let chromium =
        on_path("chromium").context("chromium is missing (Debian: apt-get install chromium)")?;
    let chromedriver = on_path("chromedriver")
        .context("chromedriver is missing (Debian: apt-get install chromium-driver)")?;
    let packages = AXE.install_once(&test_mongo::paths::tools())?;
    let tools = Tools {
        chromium,
        chromedriver,
        axe: packages.join("node_modules/axe-core/axe.min.js"),
    };
    Ok(found.insert(tools).clone())
}
