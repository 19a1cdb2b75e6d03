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
    if let Some(root) = Path::new(env!("CARGO_MANIFEST_DIR")).parent() {
        command.current_dir(root);
    }
    command
}

/// Runs the command to its end; anything but success is an error.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    let arguments: Vec<_> = command
        .get_args()
        .map(|part| part.to_string_lossy())
        .collect();
    ensure!(status.success(), "cargo {}: {status}", arguments.join(" "));
    Ok(())
}
