//! `lease`: put a command under a lease, look at leases, and mend what drifted.

mod brain;
mod confirm;
mod connection;
mod document;
mod exit;
mod lease;
mod mcp;
mod output;
mod tex;
mod ticker;
mod token;
mod usage;

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::connection::Connection;

/// Fair, limited sharing of scarce resources: leases in MongoDB under a four-level quota funnel.
///
/// Data goes to standard output, everything else to standard error. Exit codes: 0 done, 64 usage, 69 the store or a brain is
/// unavailable, 75 busy, 76 the lease is lost, 77 only a part could be done, 78 undefined or invalid, 79 done by force, 80
/// revoked but not cleaned up within the time, 1 any other failure.
#[derive(Parser)]
#[command(
    name = "lease",
    version,
    max_term_width = 100,
    after_help = "It logs to standard error. LEASE_LOG says what: a level, or TARGET=LEVEL with commas between them, like \
                  warn,lease_shared=debug [default: error]."
)]
struct Cli {
    /// Print JSON instead of tables and sentences.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(lease::run::Opts),
    Acquire(lease::acquire::Opts),
    Check(lease::check::Opts),
    Release(lease::release::Opts),
    List(lease::list::Opts),
    Show(lease::show::Opts),
    Counters(lease::counters::Opts),
    Pods(lease::pods::Opts),
    Definition(lease::definition::Opts),
    Revoke(lease::revoke::Opts),
    RevokePod(lease::revoke_pod::Opts),
    Cleanup(lease::cleanup::Opts),
    Sweep(lease::sweep::Opts),
    Reconcile(lease::reconcile::Opts),
    Document(document::Opts),
    Mcp(mcp::Opts),
    Tex(tex::Opts),
    Token(token::Opts),
}

fn main() -> ExitCode {
    // Before anything else: the guardian of a `lease run` is this binary again, and is to stay small.
    if supervise::is_guardian() {
        return supervise::guardian_main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let given: Vec<_> = std::env::args_os().skip(1).collect();
            let error = usage::explained(error, Cli::command(), &given);
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(exit::USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("LEASE_LOG")
                .unwrap_or_else(|_| "error".into()),
        )
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return exit::fail(&error.into()),
    };
    let json = cli.json;
    let result = runtime.block_on(run(cli));
    // Background work has been waited for where it matters; a file read that hangs must not keep us. Nor is the runtime
    // taken down around the driver's tasks: one that asks for a connection just then panics on standard error.
    std::mem::forget(runtime);
    result.unwrap_or_else(|error| {
        let code = exit::fail(&error);
        if let Some(hint) = exit::hint(&error).filter(|_| !json && stderr().is_terminal()) {
            eprintln!("lease: {hint}");
        }
        code
    })
}

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let Cli {
        connection,
        json,
        command,
    } = cli;
    let asked = connection.clone();
    let done = match command {
        Command::Run(opts) => lease::run::run(opts, connection).await,
        Command::Acquire(opts) => lease::acquire::run(opts, connection, json).await,
        Command::Check(opts) => lease::check::run(opts, connection, json).await,
        Command::Release(opts) => lease::release::run(opts, connection, json).await,
        Command::List(opts) => lease::list::run(opts, connection, json).await,
        Command::Show(opts) => lease::show::run(opts, connection, json).await,
        Command::Counters(opts) => lease::counters::run(opts, connection, json).await,
        Command::Pods(opts) => lease::pods::run(opts, connection, json).await,
        Command::Definition(opts) => lease::definition::run(opts, connection, json).await,
        Command::Revoke(opts) => lease::revoke::run(opts, connection, json).await,
        Command::RevokePod(opts) => lease::revoke_pod::run(opts, connection, json).await,
        Command::Cleanup(opts) => lease::cleanup::run(opts, connection, json).await,
        Command::Sweep(opts) => lease::sweep::run(opts, connection, json).await,
        Command::Reconcile(opts) => lease::reconcile::run(opts, connection, json).await,
        Command::Document(opts) => document::run(opts, connection, json).await,
        Command::Mcp(opts) => mcp::run(opts, connection, json).await,
        Command::Tex(opts) => tex::run(opts, connection, json).await,
        Command::Token(opts) => token::run(opts, json),
    };
    match done {
        Ok(code) => Ok(code),
        Err(error) => Err(asked.explain(error).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_says_how_to_log() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("LEASE_LOG"), "{help}");
    }

    #[test]
    fn what_is_no_option_stands_with_the_arguments_and_under_no_heading() {
        fn check(command: &clap::Command) {
            for argument in command.get_positionals() {
                let heading = argument.get_help_heading();
                assert_eq!(heading, None, "{}: {argument}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn every_command_shows_an_example() {
        fn check(command: &clap::Command) {
            for command in command.get_subcommands() {
                match command.has_subcommands() {
                    true => check(command),
                    false => {
                        let help = command
                            .get_after_help()
                            .map(ToString::to_string)
                            .unwrap_or_default();
                        assert!(
                            help.contains("lease "),
                            "{} has no example",
                            command.get_name()
                        );
                    }
                }
            }
        }
        check(&Cli::command());
    }
}
