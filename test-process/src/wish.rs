//! Whether tests run that need what a machine may lack.

use std::env;
use std::path::PathBuf;

use anyhow::Result;

/// For tests: what `find` finds, or none after a line on stderr that says why `what` is skipped.
///
/// The variable named `required` says whether a lack is an error: with `1` it is, with `0` nothing is looked for, and
/// without it what is found is used.
pub fn unless_skipped<T>(
    required: &str,
    what: &str,
    find: impl FnOnce() -> Result<T>,
) -> Result<Option<T>> {
    let wish = env::var(required).unwrap_or_default();
    if wish == "0" {
        eprintln!("skipped: {what}, because {required}=0");
        return Ok(None);
    }
    match find() {
        Ok(found) => Ok(Some(found)),
        Err(error) if wish == "1" => Err(error.context(format!("{required}=1"))),
        Err(error) => {
            eprintln!("skipped: {what}, because {error:#}");
            Ok(None)
        }
    }
}

/// The program of this name on the `PATH`.
pub fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}
