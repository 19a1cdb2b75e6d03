//! `brain`: the process that sweeps, knows which pods live, and cleans up behind revoked leases.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use lease_brain::args::{BrainArgs, BrainSettings, InvalidMongo};
use lease_brain::handlers::webhook::{Webhook, WebhookLimits};
use lease_brain::mcp::McpSettings;
use lease_brain::secrets::Secrets;
use lease_brain::tex::TexOptions;
use lease_brain::{Brain, Shutdown, metrics, telemetry};
use tokio::net::TcpListener;
use tracing::Instrument as _;

/// The store takes documents that are nested 180 deep, and the driver calls itself for each level of what it reads: such a
/// document is to be found unreadable, and not to end the process. Only what is used of it is memory.
const STACK: usize = 16 * 1024 * 1024;
/// The command line is wrong (`EX_USAGE`).
const USAGE: u8 = 64;
/// The store cannot be asked now (`EX_UNAVAILABLE`).
const UNAVAILABLE: u8 = 69;

/// The process behind leases: sweeps what is idle or whose pod died, cleans up behind what was revoked, and takes
/// operators' calls.
///
/// Any number of them may run on one database; none is a leader. It listens on loopback unless told otherwise. INT or TERM
/// drains: nothing new is acquired, clean-ups under way are finished, the pod says that it has stopped. A second one ends
/// it at once; other brains go on with what it leaves.
#[derive(Parser)]
#[command(
    name = "brain",
    version,
    max_term_width = 100,
    after_help = "It logs to standard error, lines on a terminal and JSON elsewhere. BRAIN_LOG says what: a level, or TARGET=LEVEL with \
                  commas between them, like info,lease_brain=debug [default: info].\n\n\
                  Example:\n  brain --mongodb-uri mongodb://127.0.0.1:27017 --internal-token-file /run/secrets/internal"
)]
struct Cli {
    #[command(flatten)]
    args: BrainArgs,
}

fn main() -> ExitCode {
    // Before anything else: the guardian of a helper behind pipes is this binary again, and is to stay small.
    if supervise::is_guardian() {
        return supervise::guardian_main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let settings = match cli.args.resolve() {
        Ok(settings) => settings,
        Err(error) => return fail(&error.into(), USAGE),
    };
    if let Err(error) = telemetry::init() {
        return fail(&error.into(), USAGE);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into(), 1),
    };
    let ended = runtime.block_on(run(settings));
    // All that matters has ended. Taking the runtime down around the driver's tasks makes those panic.
    std::mem::forget(runtime);
    match ended {
        Ok(code) => code,
        Err(error) => fail(&error, 1),
    }
}

fn fail(error: &anyhow::Error, code: u8) -> ExitCode {
    eprintln!("brain: {}", format!("{error:#}").replace(['\n', '\r'], " "));
    ExitCode::from(code)
}

async fn run(settings: BrainSettings) -> anyhow::Result<ExitCode> {
    let shutdown = Shutdown::on_signals()?;
    let database = match settings.mongo.database().await {
        Ok(database) => database,
        Err(error @ InvalidMongo::Unresolved(_)) => return Ok(fail(&error.into(), UNAVAILABLE)),
        Err(error) => return Ok(fail(&error.into(), USAGE)),
    };
    let documents = settings.mongo.documents(&database);
    let listen = settings.http.listen;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("listen on {listen}: choose another --listen"))?;
    let bound = listener.local_addr()?;
    let pod = settings
        .cluster
        .pod(settings.http.endpoint(bound), bound.port())?;
    let secrets = Secrets::new(settings.lease.secrets_dir);
    let mcp = McpSettings {
        secrets: secrets.clone(),
        project_commands: settings.lease.allow_project_commands,
    };
    let tex = TexOptions {
        secrets: secrets.clone(),
        scratch: settings.lease.tex_scratch_dir,
        allow_unconfined: settings.lease.tex_allow_unconfined,
    };
    let webhook = Webhook::new(secrets, WebhookLimits::default())?;
    // With everything that is said until it is a pod: for what may it be waiting?
    let store = tracing::error_span!("store", hosts = settings.mongo.hosts().await.join(","));
    tracing::info!(listen = %bound, endpoint = pod.endpoint, node.name = pod.node_name, "starting");
    let starting = Brain::builder(database, pod, listener)
        .handler("webhook", Arc::new(webhook))?
        .mcp(mcp)
        .tex(tex)
        .documents(documents)
        .internal_secret(settings.http.internal_token)
        .access(settings.access)
        .metrics(metrics::install()?)
        .reap_interval(settings.lease.reap_interval)
        .reconcile_interval(settings.lease.reconcile_interval)
        .drain(settings.lease.drain)
        .start()
        .instrument(store);
    let brain = tokio::select! {
        // Nothing is held yet.
        () = shutdown.drain.cancelled() => return Ok(ExitCode::SUCCESS),
        brain = starting => brain?,
    };
    brain.run(shutdown).await?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn help_says_how_to_log() {
        let help = super::Cli::command().render_long_help().to_string();
        assert!(help.contains("BRAIN_LOG"), "{help}");
    }
}
