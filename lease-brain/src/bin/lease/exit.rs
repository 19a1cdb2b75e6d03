//! What an error is to the shell: one line, and a code that says what to do next.

use std::io::ErrorKind;
use std::process::ExitCode;

use lease_brain::cluster::PodError;
use lease_shared::definition::{DocumentError, DocumentStoreError, ResolveError};
use lease_shared::{AcquireError, CheckError, InvalidName, StoreError};

use crate::output::printable;

/// The command line is wrong (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// The store, or a definition in it, cannot be relied on now (`EX_UNAVAILABLE`).
pub(crate) const UNAVAILABLE: u8 = 69;
/// No slot was free for as long as was waited (`EX_TEMPFAIL`).
pub(crate) const BUSY: u8 = 75;
/// The lease is gone.
pub(crate) const LOST: u8 = 76;
/// Some of what was asked for was done, and some could not be.
pub(crate) const PARTIAL: u8 = 77;
/// The lease is not defined, or what was asked for can never succeed (`EX_CONFIG`).
pub(crate) const INVALID: u8 = 78;
/// Done by force: what was skipped is printed.
pub(crate) const FORCED: u8 = 79;
/// The lease is revoked, and its clean-up had not ended when the wait did.
pub(crate) const PENDING: u8 = 80;

/// An error whose code is known where it arises.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Coded {
    code: u8,
    message: String,
}

pub(crate) fn coded(code: u8, message: impl Into<String>) -> anyhow::Error {
    let message = message.into();
    Coded { code, message }.into()
}

/// Prints the error with its causes on one line, and gives its code.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    // Whoever read the data has seen enough. With a context, something else is to be said.
    let io = error.downcast_ref::<std::io::Error>();
    if error.chain().count() == 1 && io.is_some_and(|io| io.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::FAILURE;
    }
    let word = error
        .chain()
        .find_map(word)
        .map(|word| format!("{word}: "))
        .unwrap_or_default();
    let line = format!("{error:#}").replace(['\n', '\r'], " ");
    eprintln!("lease: {word}{}", printable(&line));
    ExitCode::from(code_of(error))
}

/// What an error is to the shell.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code).unwrap_or(1)
}

/// Where to look next, where an error leaves that open, for somebody at a terminal.
pub(crate) fn hint(error: &anyhow::Error) -> Option<String> {
    let busy = error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(AcquireError::Busy(busy)) => Some(busy),
        _ => None,
    })?;
    let resource = shell_word(busy.resource.as_str());
    let cleanups = match busy.awaiting_cleanup {
        0 => "",
        _ => ", what awaits its clean-up by `lease cleanup list`",
    };
    Some(printable(&format!(
        "who holds it is shown by `lease list --resource {resource}`, how full each level is by `lease counters --resource \
         {resource}`{cleanups}"
    )))
}

/// As a shell takes it for one word and nothing else.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    match text.starts_with('-') || !text.chars().all(plain) {
        true => format!("'{}'", text.replace('\'', r"'\''")),
        false => text.to_owned(),
    }
}

type Cause<'a> = &'a (dyn std::error::Error + 'static);

fn word(error: Cause<'_>) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<AcquireError>() {
        Some(error.code())
    } else if let Some(error) = error.downcast_ref::<CheckError>() {
        Some(error.code())
    } else if let Some(error) = error.downcast_ref::<ResolveError>() {
        Some(match error {
            ResolveError::Undefined { .. } => "LEASE_UNDEFINED",
            ResolveError::Broken(_) | ResolveError::Unavailable(_) => "LEASE_UNAVAILABLE",
        })
    } else if error.is::<StoreError>() || error.is::<DocumentStoreError>() || error.is::<PodError>()
    {
        Some("LEASE_UNAVAILABLE")
    } else if error.is::<InvalidName>() {
        Some("LEASE_INVALID")
    } else {
        None
    }
}

fn code(error: Cause<'_>) -> Option<u8> {
    if let Some(coded) = error.downcast_ref::<Coded>() {
        return Some(coded.code);
    }
    if error.is::<DocumentError>() {
        return Some(INVALID);
    }
    match word(error)? {
        "LEASE_BUSY" => Some(BUSY),
        "LEASE_LOST" => Some(LOST),
        "LEASE_UNAVAILABLE" => Some(UNAVAILABLE),
        _ => Some(INVALID),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        for (name, word) in [
            ("tex2pdf", "tex2pdf"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$(reboot)", "'$(reboot)'"),
            ("--json", "'--json'"),
        ] {
            assert_eq!(shell_word(name), word);
        }
    }
}
