//! What is wrong with a command line: clap's words, and what it cannot know.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// The error with what helps: the variables that an option can come from, where a command to run stands.
pub(crate) fn explained(
    mut error: clap::Error,
    mut root: Command,
    given: &[OsString],
) -> clap::Error {
    root.build();
    let mut command = innermost(root, given);
    match error.kind() {
        ErrorKind::MissingRequiredArgument => {
            // Its own lists as required whatever was given by a variable.
            let usage = command.render_usage();
            error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
            if let Some(tip) = variables(&error, &command) {
                suggest(&mut error, tip);
            }
        }
        ErrorKind::UnknownArgument if command.get_name() == "run" && is_a_word(&error, given) => {
            let tip = "the command to run stands after `--`: lease run NAME -- COMMAND";
            suggest(&mut error, tip.to_owned());
        }
        _ => {}
    }
    error
}

/// The subcommand that is meant, as far as it can be told.
fn innermost(root: Command, given: &[OsString]) -> Command {
    let inner = |command: Command, word| command.find_subcommand(word).cloned().unwrap_or(command);
    given.iter().fold(root, inner)
}

/// Which of the options that are missing can stand in the environment.
fn variables(error: &clap::Error, command: &Command) -> Option<String> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let is_missing = |option: &Arg| {
        let long = option.get_long().map(|long| format!("--{long} "));
        long.is_some_and(|long| missing.iter().any(|missing| missing.starts_with(&long)))
    };
    let options = command.get_arguments().filter(|option| is_missing(option));
    let named: Vec<_> = options
        .filter_map(|option| {
            let variable = option.get_env()?.to_str()?;
            Some(format!("--{} as {variable}", option.get_long()?))
        })
        .collect();
    let named = named.join(", ");
    (!named.is_empty()).then(|| format!("options can also come from the environment: {named}"))
}

/// Is what was not expected a word, where no `--` says that a command begins?
fn is_a_word(error: &clap::Error, given: &[OsString]) -> bool {
    let Some(ContextValue::String(unexpected)) = error.get(ContextKind::InvalidArg) else {
        return false;
    };
    !unexpected.starts_with('-') && !given.iter().any(|word| word == "--")
}

fn suggest(error: &mut clap::Error, tip: String) {
    let mut tips = match error.remove(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips,
        _ => Vec::new(),
    };
    tips.push(tip.into());
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}
