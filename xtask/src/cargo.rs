//! Calls cargo from within a task.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The same cargo that started the task, in the workspace's root.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments);
    as_from_a_person(&mut command);
    if let Some(root) = Path::new(env!("CARGO_MANIFEST_DIR")).parent() {
        command.current_dir(root);
    }
    command
}

/// Lets a command that calls cargo know nothing of the cargo that has started us.
pub(crate) fn as_from_a_person(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_of_this_crate) {
            command.env_remove(name);
        }
    }
}

/// What `cargo run` tells a program about its crate. Build scripts (ring's) that look at these variables
/// would run again at each change between cargo called by us and by a person, and half the workspace with them.
fn is_of_this_crate(variable: &str) -> bool {
    [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_NAME",
        "CARGO_CRATE_NAME",
    ]
    .iter()
    .any(|start| variable.starts_with(start))
}

/// Runs the command to its end; anything but success is an error.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let arguments: Vec<_> = command
        .get_args()
        .map(|part| part.to_string_lossy())
        .collect();
    ensure!(
        status.success(),
        "{} {}: {status}",
        name.display(),
        arguments.join(" ")
    );
    Ok(())
}
