//! The project's own tasks: `cargo xtask <task>`.
#![allow(clippy::print_stdout)]

mod bench;
mod cargo;
mod ci;
mod demo;
mod dev;
mod mongo;
mod readme;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The project's own tasks.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Real commands and pods share resources under caps; some of them are killed, and nothing is lost
    Demo(demo::Opts),
    /// A MongoDB and a brain to try things on, until `down`
    Up,
    /// Stop what `up` started
    Down,
    /// A MongoDB for people: it runs until it is stopped
    #[command(subcommand)]
    Mongo(mongo::Command),
    /// All tests, with a MongoDB for their time unless MONGODB_URI names one
    Test(test::Opts),
    /// What leases cost: commands per operation, and ratios to a raw write
    Bench(bench::Opts),
    /// What the README tells people to type, in one shell
    Readme,
    /// Precisely what the project's CI runs
    Ci,
    #[command(name = "__bench", hide = true)]
    Measure(bench::Opts),
    #[command(name = "__contender", hide = true)]
    Contender(demo::contender::Opts),
    #[command(name = "__job", hide = true)]
    Job(demo::job::Opts),
    #[command(name = "__pod", hide = true)]
    Pod(demo::pod::Opts),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse().task).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(task: Task) -> Result<()> {
    match task {
        Task::Up => dev::up().await,
        Task::Down => dev::down().await,
        Task::Mongo(command) => mongo::run(command).await,
        Task::Test(opts) => test::run(opts).await,
        Task::Readme => readme::run().await,
        Task::Ci => ci::run().await,
        Task::Bench(opts) => bench::run(opts).await,
        Task::Measure(opts) => bench::measure(opts).await,
        Task::Demo(opts) => demo::run(opts).await,
        Task::Contender(opts) => demo::contender::run(opts).await,
        Task::Job(opts) => demo::job::run(opts),
        Task::Pod(opts) => demo::pod::run(opts).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
