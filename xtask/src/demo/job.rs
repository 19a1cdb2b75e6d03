//! The command that runs under the lease: it writes itself into the journal, does real work, and writes itself out.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::journal::{Entry, Journal};

/// The hidden task that `lease run` starts.
#[derive(clap::Args)]
pub(crate) struct Opts {
    #[arg(long)]
    journal: PathBuf,
    #[arg(long)]
    tenant: String,
    #[arg(long)]
    project: String,
    #[arg(long)]
    user: String,
    #[arg(long)]
    contender: usize,
    #[arg(long)]
    slot: usize,
}

pub(crate) fn run(opts: Opts) -> Result<()> {
    let journal = Journal::open(opts.journal);
    let guardian = rustix::process::getppid().context("the guardian is gone")?;
    let entry = Entry {
        token: std::env::var("LEASE_TOKEN").context("no LEASE_TOKEN: not under `lease run`")?,
        tenant: opts.tenant,
        project: opts.project,
        user: opts.user,
        contender: opts.contender,
        slot: opts.slot,
        pid: std::process::id().try_into()?,
        guardian: guardian.as_raw_nonzero().get(),
    };
    journal.lock()?.append(&entry.enter())?;
    let worked = work();
    journal.lock()?.append(&entry.leave())?;
    worked
}

/// What [`run`] does, for people.
pub(crate) fn describe() -> &'static str {
    if has_latexmk() {
        "each compiles a paper with latexmk"
    } else {
        "each compresses a file with gzip (latexmk is not installed)"
    }
}

fn work() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let mut command = if has_latexmk() {
        latexmk(scratch.path())?
    } else {
        gzip(scratch.path())?
    };
    let status = command
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    let status = status.context("start the command")?;
    ensure!(status.success(), "the command failed: {status}");
    Ok(())
}

fn has_latexmk() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join("latexmk").is_file())
}

const PAPER: &str = r"\documentclass{article}
\title{On the sharing of scarce resources}
\begin{document}
\maketitle
\section{Fairness}\label{fair}
See section~\ref{fair}. $$\sum_{i=1}^{n} s_i \le c$$
\end{document}
";

fn latexmk(folder: &Path) -> Result<Command> {
    std::fs::write(folder.join("paper.tex"), PAPER)?;
    let mut command = Command::new("latexmk");
    command
        .args(["-pdf", "-silent", "-interaction=nonstopmode", "paper.tex"])
        .stderr(Stdio::null());
    Ok(command)
}

fn gzip(folder: &Path) -> Result<Command> {
    // Text that takes some work: numbers in no simple order.
    let mut state = 1_u32;
    let mut text = String::new();
    for _ in 0..200_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(&(state >> 12).to_string());
        text.push('\n');
    }
    std::fs::write(folder.join("data"), text)?;
    let mut command = Command::new("gzip");
    command.args(["-9", "data"]);
    Ok(command)
}
