//! `cargo xtask test`: all tests on real servers.

use std::num::NonZero;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use test_mcp::real;
use test_mongo::Mongod;

use crate::cargo::{cargo, succeed};
use crate::mongo::given_uri;

/// Options of `cargo xtask test`.
#[derive(clap::Args, Default)]
#[command(after_help = "Example: cargo xtask test -- reap_loses_to_release")]
pub(crate) struct Opts {
    /// Arguments for `cargo test`
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// How many tests run at once. They wait for servers and browsers more than they compute: two for each processor.
const THREADS: &str = "RUST_TEST_THREADS";
/// Whether tests that compile documents are required: `1` makes it an error to lack what they need.
const TEX_REQUIRED: &str = "TEX_E2E";

fn say_whether_tex_is_there() -> Result<()> {
    let is_there = |program: &str| {
        let mut command = Command::new(program);
        let asked = command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    };
    let required = std::env::var(TEX_REQUIRED).is_ok_and(|value| value == "1");
    for (program, package) in [
        ("latexmk", "latexmk"),
        ("pdflatex", "texlive-latex-base"),
        ("xelatex", "texlive-xetex"),
    ] {
        if is_there(program) {
            continue;
        }
        let cure = format!("Debian: apt-get install --no-install-recommends {package}");
        ensure!(
            !required,
            "{TEX_REQUIRED}=1, and {program} is missing ({cure})"
        );
        eprintln!("skipped: tests that compile documents by {program}, which is missing ({cure})");
    }
    Ok(())
}

/// Runs the tests on the server of `MONGODB_URI`, else on one that lives as long as they do; with the MCP servers
/// and the accessibility checker from npm, which it installs, where that can be.
pub(crate) async fn run(opts: Opts) -> Result<()> {
    // What is skipped is said here once, since cargo hides what a passing test says.
    let mcp = real::tools()?;
    let browser = test_browser::tools()?;
    say_whether_tex_is_there()?;
    let server = match given_uri().await {
        Some(_) => None,
        None => Some(Mongod::start().await?),
    };
    let mut command = cargo(["test", "--workspace", "--all-features"]);
    if std::env::var_os(THREADS).is_none() {
        let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
        command.env(THREADS, (2 * cpus).to_string());
    }
    command.args(&opts.arguments);
    if let Some(server) = &server {
        command.env("MONGODB_URI", server.uri());
    }
    if mcp.is_none() {
        command.env(real::REQUIRED, "0");
    }
    if browser.is_none() {
        command.env(test_browser::REQUIRED, "0");
    }
    succeed(&mut command)
}
