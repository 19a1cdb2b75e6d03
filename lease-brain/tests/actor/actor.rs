//! A brain that also acquires in its own name, as a consumer in its process does: for the tests to pause and kill.
//!
//! It takes the options of `brain`. Besides `webhook` it cleans up behind leases of type `probe`, whose slots come back at
//! once: it calls the payload's `url` for as long as that takes, or panics if the payload says `panics`. On its standard
//! input it takes one order a line and answers each with a line: `acquire USER bound|free URL`, `check TOKEN`,
//! `release TOKEN`.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;

use clap::Parser;
use futures_util::future::BoxFuture;
use lease_brain::args::{BrainArgs, BrainSettings};
use lease_brain::brain::{Brain, Shutdown};
use lease_brain::handlers::webhook::{Webhook, WebhookLimits};
use lease_brain::secrets::Secrets;
use lease_brain::telemetry;
use lease_shared::{
    CheckError, HandlerError, Lease, LeaseHandler, LeaseRef, LeaseRequest, LeaseService, LeaseType,
    PodId, Revocation, SlotReturn, Tenancy,
};
use metrics_exporter_prometheus::PrometheusBuilder;
use mongodb::bson::doc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BrainArgs,
}

fn main() {
    let settings = Cli::parse().args.resolve().expect("settings");
    telemetry::init().expect("a log");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(act(settings));
}

async fn act(settings: BrainSettings) {
    let database = settings.mongo.database().await.expect("a database");
    let documents = settings.mongo.documents(&database);
    let listener = TcpListener::bind(settings.http.listen)
        .await
        .expect("a port");
    let bound = listener.local_addr().expect("an address");
    let pod = settings
        .cluster
        .pod(settings.http.endpoint(bound), bound.port())
        .expect("a pod's settings");
    let webhook = Webhook::new(Secrets::new(None), WebhookLimits::default());
    let metrics = PrometheusBuilder::new().install_recorder();
    let brain = Brain::builder(database, pod, listener)
        .handler("webhook", Arc::new(webhook.expect("a client")))
        .expect("one handler")
        .handler("probe", Arc::new(Probe))
        .expect("one handler")
        .documents(documents)
        .internal_secret(settings.http.internal_token)
        .metrics(metrics.expect("a recorder"))
        .reap_interval(settings.lease.reap_interval)
        .reconcile_interval(settings.lease.reconcile_interval)
        .drain(settings.lease.drain)
        .start()
        .await
        .expect("a brain");
    let consumer = Consumer {
        leases: brain.leases().clone(),
        pod: brain.pod().clone(),
        held: HashMap::new(),
    };
    let shutdown = Shutdown::default();
    let ended = shutdown.abort.clone();
    tokio::spawn(async move {
        consumer.serve().await;
        ended.cancel();
    });
    brain.run(shutdown).await.expect("a brain to its end");
}

#[derive(Debug)]
struct Probe;

impl LeaseHandler for Probe {
    fn slot_return(&self) -> SlotReturn {
        SlotReturn::AtOnce
    }

    fn on_revoked<'a>(
        &'a self,
        revocation: &'a Revocation,
    ) -> BoxFuture<'a, Result<(), HandlerError>> {
        Box::pin(async move {
            let payload = &revocation.payload;
            assert!(!payload.contains_key("panics"), "as it was told");
            let url = payload.get_str("url")?;
            let answer = reqwest::Client::new().post(url).send().await?;
            answer.error_for_status()?;
            Ok(())
        })
    }
}

/// What acquires in this process.
struct Consumer {
    leases: LeaseService,
    pod: PodId,
    held: HashMap<String, Lease>,
}

impl Consumer {
    /// Until the standard input ends.
    async fn serve(mut self) {
        let (send, mut orders) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        while let Some(order) = orders.recv().await {
            let answer = self.perform(&order).await.unwrap_or_else(|problem| problem);
            let mut out = std::io::stdout().lock();
            writeln!(out, "{answer}").expect("a listener");
            out.flush().expect("a listener");
        }
    }

    async fn perform(&mut self, order: &str) -> Result<String, String> {
        match order.split(' ').collect::<Vec<_>>()[..] {
            ["acquire", user, bound, url] => self.acquire(user, bound == "bound", url).await,
            ["check", token] => match self.lease(token)?.check().await {
                Ok(()) => Ok("held".to_owned()),
                Err(CheckError::Lost(_)) => Ok("lost".to_owned()),
                Err(error) => Err(error.to_string()),
            },
            ["release", token] => match self.lease(token)?.release().await {
                Ok(release) => Ok(format!("{release:?}")),
                Err(error) => Err(error.to_string()),
            },
            _ => Err(format!("no order: {order}")),
        }
    }

    fn lease(&self, token: &str) -> Result<&Lease, String> {
        self.held
            .get(token)
            .ok_or_else(|| "no such lease".to_owned())
    }

    async fn acquire(&mut self, user: &str, bound: bool, url: &str) -> Result<String, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let request = LeaseRequest::builder()
            .lease_type(LeaseType::new("probe").map_err(|error| text(&error))?)
            .lease(LeaseRef::named("bench").map_err(|error| text(&error))?)
            .tenancy(Tenancy::new("acme", "thesis", user).map_err(|error| text(&error))?)
            .holder_ref("actor")
            .pod(self.pod.clone())
            .pod_bound(bound)
            .payload(doc! { "url": url })
            .build();
        let lease = self.leases.acquire(request).await;
        let lease = lease.map_err(|error| text(&error))?;
        let token = lease.token().ok_or("nothing to hold")?.to_string();
        self.held.insert(token.clone(), lease);
        Ok(token)
    }
}
