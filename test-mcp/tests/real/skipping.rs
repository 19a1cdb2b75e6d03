//! A machine without Node skips visibly, unless it must not.

use std::env;
use std::process::{Command, Output};

use anyhow::Result;
use test_mcp::real::REQUIRED;

fn run_without_node(required: Option<&str>) -> Result<Output> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["--exact", "everything::session_lives_until_its_delete"])
        .arg("--nocapture")
        .env("PATH", "/nonexistent");
    match required {
        Some(value) => command.env(REQUIRED, value),
        None => command.env_remove(REQUIRED),
    };
    Ok(command.output()?)
}

#[test]
fn without_node_it_is_said_what_is_skipped_and_how_to_get_it() -> Result<()> {
    let output = run_without_node(None)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let line = "skipped: tests with real MCP servers, because node is missing \
                (Debian: apt-get install nodejs npm)";
    assert!(errors.contains(line), "{errors}");
    Ok(())
}

#[test]
fn where_they_are_required_a_lack_fails() -> Result<()> {
    let output = run_without_node(Some("1"))?;
    assert!(!output.status.success());
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("node is missing"), "{text}");
    Ok(())
}
