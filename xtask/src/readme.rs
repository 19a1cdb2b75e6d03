//! Runs what the README tells people to type.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::cargo::as_from_a_person;
use crate::{dev, mongo};

/// The first block is the demo and the tests, which CI runs as steps of their own.
const RUN_ELSEWHERE: usize = 1;

/// Runs the shell blocks of the README in one shell, in order; the first command that fails ends it.
pub(crate) async fn run() -> Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("no workspace")?;
    let readme = std::fs::read_to_string(root.join("README.md")).context("read README.md")?;
    let blocks = shell_blocks(&readme);
    ensure!(
        blocks.len() > RUN_ELSEWHERE,
        "the README has no commands to run"
    );
    let mut script = String::new();
    for block in &blocks[RUN_ELSEWHERE..] {
        if block.contains("npx") && !has_node()? {
            eprintln!("skipped: a block of the README that needs node and npm");
            continue;
        }
        script.push_str(block);
    }
    // A shell that has read `target/dev/env` may begin anew.
    script.push_str("cargo xtask up\ncargo xtask down\n");
    // What ran before goes on; what a script that failed has left is ended.
    let (mongo_ran, brain_ran) = (mongo::runs().await, dev::brain_runs());
    let result = run_script(root, &script);
    if !brain_ran {
        dev::end_brain().await?;
    }
    if !mongo_ran {
        mongo::run(mongo::Command::Stop).await?;
    }
    result
}

/// Whether what needs Node can be run. Where the tests with real MCP servers are required, it has to.
fn has_node() -> Result<bool> {
    let wish = std::env::var(test_mcp::real::REQUIRED).unwrap_or_default();
    let found = Command::new("npx")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    let found = found.is_ok_and(|status| status.success());
    ensure!(found || wish != "1", "npx is not on the PATH");
    Ok(found && wish != "0")
}

fn run_script(root: &std::path::Path, script: &str) -> Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-eux"]).current_dir(root).stdin(Stdio::piped());
    as_from_a_person(&mut shell);
    for variable in [
        "MONGODB_URI",
        "LEASE_TENANT",
        "LEASE_PROJECT",
        "LEASE_USER",
        "LEASE_DATABASE",
        "LEASE_INTERNAL_TOKEN",
        "LEASE_INTERNAL_TOKEN_FILE",
        "LEASE_BRAIN_URL",
        "LEASE_JWT_AUDIENCE",
        "LEASE_JWT_ISSUER",
        "LEASE_JWT_JWKS",
        "LEASE_JWT_SECRET_FILE",
    ] {
        shell.env_remove(variable);
    }
    let mut shell = shell.spawn().context("start sh")?;
    shell
        .stdin
        .take()
        .context("no input of sh")?
        .write_all(script.as_bytes())?;
    let status = shell.wait()?;
    ensure!(status.success(), "a command of the README failed: {status}");
    Ok(())
}

fn shell_blocks(readme: &str) -> Vec<&str> {
    let after_fence = readme.split("```sh\n").skip(1);
    after_fence
        .filter_map(|rest| Some(rest.split_once("```")?.0))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_shell_blocks_are_run() {
        let readme = "a\n```sh\none\n```\nb\n```rust\nlet x;\n```\n```sh\ntwo\nthree\n```\n";
        assert_eq!(super::shell_blocks(readme), ["one\n", "two\nthree\n"]);
    }

    /// The lines of a text without their indentation.
    fn flush(text: &str) -> String {
        let lines = text.lines().map(|line| format!("{}\n", line.trim()));
        lines.collect()
    }

    #[test]
    fn rust_of_the_readme_stands_in_the_examples_which_are_compiled() {
        let examples = [
            include_str!("../../lease-shared/examples/hold_a_slot.rs"),
            include_str!("../../lease-brain/examples/bench_pod.rs"),
        ]
        .map(flush);
        let readme = include_str!("../../README.md");
        let blocks = readme.split("```rust\n").skip(1);
        let mut found = 0;
        for block in blocks.filter_map(|rest| Some(rest.split_once("```")?.0)) {
            // What is left out.
            for part in flush(block).split("// …\n") {
                let known = examples.iter().any(|example| example.contains(part));
                assert!(known, "no example has:\n{part}");
                found += 1;
            }
        }
        assert!(found > 1);
    }
}
