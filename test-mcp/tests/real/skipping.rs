//! A machine without Node skips visibly.

use std::env;
use std::process::Command;

use anyhow::Result;
use test_mcp::real::REQUIRED;

#[test]
fn without_node_it_is_said_what_is_skipped_and_how_to_get_it() -> Result<()> {
    let output = Command::new(env::current_exe()?)
        .args(["--exact", "everything::session_lives_until_its_delete"])
        .arg("--nocapture")
        .env("PATH", "/nonexistent")
        .env_remove(REQUIRED)
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let line = "skipped: tests with real MCP servers, because node is missing \
                (Debian: apt-get install nodejs npm)";
    assert!(errors.contains(line), "{errors}");
    Ok(())
}
