//! `cargo xtask ci`: what CI runs, so that one command answers "will it pass?".

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::cargo::{cargo, succeed};
use crate::{readme, test};

/// How a step ended, unless it failed.
enum Outcome {
    Passed,
    Skipped(&'static str),
}

/// Runs the steps in turn and stops at the first that fails.
pub(crate) async fn run() -> Result<()> {
    let mut report = Report::default();
    let outcome = steps(&mut report).await;
    report.print();
    outcome?;
    println!("ci: passed");
    Ok(())
}

async fn steps(report: &mut Report) -> Result<()> {
    report
        .step("fmt", async || run_cargo(&["fmt", "--all", "--check"]))
        .await?;
    report.step("clippy", async || run_cargo(&CLIPPY)).await?;
    report
        .step("test", async || {
            test::run(test::Opts::default())
                .await
                .map(|()| Outcome::Passed)
        })
        .await?;
    report
        .step("demo", async || {
            task(&["demo", "--seconds", "10", "--json"])
        })
        .await?;
    report
        .step("bench", async || {
            task(&["bench", "--dev", "--rounds", "20", "--json"])
        })
        .await?;
    report
        .step("readme", async || {
            readme::run().await.map(|()| Outcome::Passed)
        })
        .await?;
    report.step("doc", async || doc()).await?;
    report.step("deny", async || deny()).await
}

/// Runs another task of this program, as a person would.
fn task(arguments: &[&str]) -> Result<Outcome> {
    succeed(Command::new(std::env::current_exe()?).args(arguments))?;
    Ok(Outcome::Passed)
}

const CLIPPY: [&str; 7] = [
    "clippy",
    "--workspace",
    "--all-targets",
    "--all-features",
    "--",
    "-D",
    "warnings",
];

fn run_cargo(arguments: &[&str]) -> Result<Outcome> {
    succeed(&mut cargo(arguments.iter().copied()))?;
    Ok(Outcome::Passed)
}

fn doc() -> Result<Outcome> {
    let mut command = cargo(["doc", "--workspace", "--no-deps"]);
    succeed(command.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed)
}

fn deny() -> Result<Outcome> {
    let mut probe = Command::new("cargo-deny");
    let installed = probe
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !installed.is_ok_and(|status| status.success()) {
        return Ok(Outcome::Skipped(
            "cargo-deny is not installed (cargo install cargo-deny)",
        ));
    }
    run_cargo(&["deny", "check"])
}

/// The steps so far, with what became of them.
#[derive(Default)]
struct Report {
    lines: Vec<(&'static str, Duration, String)>,
}

impl Report {
    async fn step(
        &mut self,
        name: &'static str,
        work: impl AsyncFnOnce() -> Result<Outcome>,
    ) -> Result<()> {
        eprintln!("ci: {name}");
        let start = Instant::now();
        let outcome = work().await;
        let words = match &outcome {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::Skipped(reason)) => format!("skipped: {reason}"),
            Err(_) => "FAILED".to_owned(),
        };
        self.lines.push((name, start.elapsed(), words));
        match outcome {
            Ok(_) => Ok(()),
            Err(error) => bail!("ci: {name} failed: {error:#}"),
        }
    }

    fn print(&self) {
        println!();
        for (name, time, words) in &self.lines {
            println!("{name:<8}{:>7.1} s  {words}", time.as_secs_f64());
        }
    }
}
