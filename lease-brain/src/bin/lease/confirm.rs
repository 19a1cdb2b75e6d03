//! Asks before what cannot be undone.

use std::io::{IsTerminal, stdin};

use crate::exit::{USAGE, coded};

/// Goes on if `yes`, or if somebody at a terminal says so.
pub(crate) fn confirm(question: &str, yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !stdin().is_terminal() {
        let problem = format!(
            "there is no terminal to ask on, so nothing was done: add --yes if you mean it: {question}"
        );
        return Err(coded(USAGE, problem));
    }
    ask(question)
}

/// The same for what brains do by themselves sooner or later: where nobody can be asked, it goes on. What is asked about is
/// shown to whom is asked.
pub(crate) fn confirm_on_terminal(
    shown: impl FnOnce() -> String,
    question: &str,
    yes: bool,
) -> anyhow::Result<()> {
    if yes || !stdin().is_terminal() {
        return Ok(());
    }
    eprintln!("{}", shown());
    ask(question)
}

fn ask(question: &str) -> anyhow::Result<()> {
    eprint!("{} [y/N] ", crate::output::printable(question));
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(coded(1, "not confirmed, so nothing was done")),
    }
}
