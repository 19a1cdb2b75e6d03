//! `lease acquire`: a lease for a shell or a CI step, by its token.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use lease_brain::handlers::webhook::{self, WebhookPayload};
use lease_shared::{Lease, LeaseName, LeaseRef, LeaseRequest, LeaseService, LeaseType};
use serde::Serialize;

use super::check::NO_TOKEN;
use super::progress::Progress;
use super::signals::Signals;
use crate::connection::{Connection, Holder};
use crate::exit::{INVALID, code_of, coded};
use crate::output;

/// Acquire a lease and print its token.
///
/// With --export-env, a failure is code as well: it unsets the variables and gives the exit code, so that `eval` fails too.
///
/// The lease is held until `lease release TOKEN`, or until it is not checked for its time to live.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    eval \"$(lease acquire tex --tenant acme --project thesis --user ada --export-env)\"\n  \
    lease check \"$LEASE_TOKEN\" && latexmk -pdf paper.tex\n  \
    lease release \"$LEASE_TOKEN\"")]
pub(crate) struct Opts {
    /// Print shell code that sets LEASE_TOKEN, LEASE_RESOURCE and LEASE_TTL_SECONDS.
    #[arg(long, conflicts_with = "json")]
    export_env: bool,
    #[command(flatten)]
    ask: Ask,
}

/// What `acquire` and `run` ask for alike.
#[derive(Args)]
pub(crate) struct Ask {
    /// The lease's name.
    #[arg(value_name = "NAME")]
    name: String,
    /// How long to wait for a slot, for example `20m`; as long as the definition says, if not said. `0s` is one try.
    /// Standard error tells who holds it and since when: a terminal all the time, a log every 30 seconds.
    #[arg(long, value_name = "DURATION", value_parser = lease_brain::args::duration)]
    wait: Option<Duration>,
    /// What operators see as the holder; host and process number if not said.
    #[arg(long, value_name = "TEXT")]
    holder_ref: Option<String>,
    #[command(flatten)]
    holder: Holder,
}

impl Ask {
    pub(crate) fn name(&self) -> Result<LeaseName, lease_shared::InvalidName> {
        LeaseName::new(&self.name)
    }

    pub(crate) fn tenancy(&self) -> Result<lease_shared::Tenancy, lease_shared::InvalidName> {
        self.holder.tenancy()
    }

    /// Acquires, telling who is waited for. A signal meanwhile gives everything back.
    ///
    /// What is to be called on a revocation is written with the holder, so that there is no moment without it.
    pub(crate) async fn acquire(
        &self,
        leases: &LeaseService,
        signals: &mut Signals,
        on_revoke: Option<&WebhookPayload>,
    ) -> anyhow::Result<Lease> {
        let lease_type = match on_revoke {
            Some(_) => webhook::lease_type()?,
            None => LeaseType::command(),
        };
        let progress = Arc::new(Progress::new());
        let on_busy = Arc::clone(&progress);
        let request = LeaseRequest::builder()
            .lease_type(lease_type)
            .maybe_payload(on_revoke.map(WebhookPayload::to_document))
            .lease(LeaseRef::Named(self.name()?))
            .tenancy(self.tenancy()?)
            .holder_ref(self.holder_ref.clone().unwrap_or_else(this_process))
            .maybe_wait(self.wait)
            .on_busy(Arc::new(move |busy: &lease_shared::Busy| {
                on_busy.show(busy)
            }))
            .build();
        let acquired = tokio::select! {
            acquired = leases.acquire(request) => Ok(acquired),
            signal = signals.next() => Err(signal),
            never = progress.log(self.wait) => match never {},
        };
        progress.end();
        match acquired {
            Ok(Ok(lease)) => Ok(lease),
            Ok(Err(error)) => {
                leases.close().await;
                Err(error.into())
            }
            Err(signal) => {
                // The dropped attempt is undone before we go.
                leases.close().await;
                let code = u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX);
                Err(coded(code, "stopped while waiting; nothing is held"))
            }
        }
    }
}

fn this_process() -> String {
    let host = rustix::system::uname();
    format!(
        "{}:{}",
        host.nodename().to_string_lossy(),
        std::process::id()
    )
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Acquired<'a> {
    token: Option<&'a str>,
    resource: Option<&'a str>,
    ttl_seconds: Option<u64>,
    noop: bool,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    // Bad names are refused before a server is asked for.
    opts.ask.name()?;
    opts.ask.tenancy()?;
    if output::is_closed() {
        anyhow::bail!(
            "standard output is closed, so nobody would learn the token; nothing was acquired"
        );
    }
    let acquired = async {
        let leases = connection.leases().await?;
        let lease = opts
            .ask
            .acquire(&leases, &mut Signals::new()?, None)
            .await?;
        anyhow::Ok((leases, lease))
    };
    let (leases, lease) = match acquired.await {
        Ok(acquired) => acquired,
        Err(error) => {
            if opts.export_env {
                // For `eval`, which else would succeed, and leave what was set before.
                let code = code_of(&error);
                output::line(&format!(
                    "unset LEASE_TOKEN LEASE_RESOURCE LEASE_TTL_SECONDS; (exit {code})"
                ))?;
            }
            return Err(error);
        }
    };
    let shown = Acquired {
        token: lease.token().map(|token| token.as_str()),
        resource: lease.resource().map(|resource| resource.as_str()),
        ttl_seconds: lease.ttl().map(|ttl| ttl.as_secs()),
        noop: lease.is_noop(),
    };
    let printed = match (json, opts.export_env) {
        (true, _) => output::json(&shown),
        (_, true) => output::line(&exports(&shown)),
        _ if lease.is_noop() => Err(coded(
            INVALID,
            "the definition caps nothing, so there is no token to print; use --json or --export-env to accept that",
        )),
        _ => output::line(shown.token.unwrap_or_default()),
    };
    if printed.is_err() {
        // Nobody would know the token.
        let _ = lease.release().await;
        leases.close().await;
        printed.context("nothing is held")?;
    }
    lease.into_token();
    Ok(ExitCode::SUCCESS)
}

fn exports(shown: &Acquired<'_>) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    format!(
        "export LEASE_TOKEN={}\nexport LEASE_RESOURCE={}\nexport LEASE_TTL_SECONDS={}",
        quoted(shown.token.unwrap_or(NO_TOKEN)),
        quoted(shown.resource.unwrap_or_default()),
        shown.ttl_seconds.unwrap_or_default(),
    )
}
