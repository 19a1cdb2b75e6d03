//! A machine without a program skips visibly, unless it must not.

use std::env;
use std::process::{Command, Output};

use anyhow::{Context as _, Result};
use test_process::{on_path, unless_skipped};

/// What stands here for the variables of those who need programs.
const REQUIRED: &str = "TEST_PROCESS_E2E";

fn run(required: Option<&str>) -> Result<Output> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["--exact", "skipping::test_with_a_program"])
        .args(["--ignored", "--nocapture"]);
    match required {
        Some(value) => command.env(REQUIRED, value),
        None => command.env_remove(REQUIRED),
    };
    Ok(command.output()?)
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "a part of the others"]
fn test_with_a_program() -> Result<()> {
    let find = || on_path("no-such-program").context("it is missing");
    assert_eq!(unless_skipped(REQUIRED, "this test", find)?, None);
    Ok(())
}

#[test]
fn what_is_missing_is_said() -> Result<()> {
    let output = run(None)?;
    let errors = errors(&output);
    assert!(output.status.success(), "{errors}");
    let line = "skipped: this test, because it is missing";
    assert!(errors.contains(line), "{errors}");
    Ok(())
}

#[test]
fn what_is_not_wanted_is_not_looked_for() -> Result<()> {
    let output = run(Some("0"))?;
    let errors = errors(&output);
    assert!(output.status.success(), "{errors}");
    let line = "skipped: this test, because TEST_PROCESS_E2E=0";
    assert!(errors.contains(line), "{errors}");
    Ok(())
}

#[test]
fn where_it_is_required_a_lack_fails() -> Result<()> {
    let output = run(Some("1"))?;
    assert!(!output.status.success());
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("it is missing"), "{text}");
    Ok(())
}
