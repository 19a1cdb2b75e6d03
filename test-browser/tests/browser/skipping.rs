//! A machine without a browser skips visibly.

use std::env;
use std::process::Command;

use anyhow::Result;
use test_browser::REQUIRED;

#[test]
fn without_browser_it_is_said_what_is_skipped_and_how_to_get_it() -> Result<()> {
    let output = Command::new(env::current_exe()?)
        .args(["--exact", "viewing::browsers_share_nothing", "--nocapture"])
        .env("PATH", "/nonexistent")
        .env_remove(REQUIRED)
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let line = "skipped: tests in a browser, because chromium is missing \
                (Debian: apt-get install chromium)";
    assert!(errors.contains(line), "{errors}");
    Ok(())
}
