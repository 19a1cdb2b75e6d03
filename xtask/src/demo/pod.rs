//! One pod of the demo: a process that links the brain, holds benches, and opens users' sessions, until standard
//! input ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::future::BoxFuture;
use lease_brain::brain::{Brain, Shutdown};
use lease_brain::cluster::PodSettings;
use lease_brain::handlers::webhook::{self, Webhook, WebhookLimits, WebhookPayload};
use lease_brain::mcp::McpSettings;
use lease_brain::secrets::Secrets;
use lease_shared::{
    AcquireError, CheckError, HandlerError, Lease, LeaseHandler, LeaseRef, LeaseRequest,
    LeaseService, PodId, Revocation, SlotReturn, Tenancy, connect,
};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use uuid::Uuid;

use super::pods::{BENCH, WANTED};

/// What a pod's handlers did, told when it ends.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Handled {
    pub(crate) run: usize,
    pub(crate) failed: usize,
}

/// The webhook's handler, counted.
#[derive(Debug)]
struct Counted {
    webhook: Webhook,
    handled: Arc<Mutex<Handled>>,
}

impl LeaseHandler for Counted {
    fn slot_return(&self) -> SlotReturn {
        self.webhook.slot_return()
    }

    fn on_revoked<'a>(
        &'a self,
        revocation: &'a Revocation,
    ) -> BoxFuture<'a, Result<(), HandlerError>> {
        Box::pin(async move {
            let cleaned = self.webhook.on_revoked(revocation).await;
            let mut handled = self.handled.lock().unwrap_or_else(PoisonError::into_inner);
            handled.run += 1;
            handled.failed += usize::from(cleaned.is_err());
            cleaned
        })
    }
}

/// Far below the time to live of a bench.
const CHECKED_EVERY: Duration = Duration::from_millis(500);

/// The hidden task of a pod.
#[derive(clap::Args)]
pub(crate) struct Opts {
    #[arg(long)]
    name: String,
    /// What its webhooks switch off.
    #[arg(long)]
    plug: String,
}

pub(crate) async fn run(opts: Opts) -> Result<()> {
    let variable = |name: &str| std::env::var(name).with_context(|| name.to_owned());
    let client = connect(&variable("MONGODB_URI")?).await?;
    let database = client.database(&variable("LEASE_DATABASE")?);
    let secret = SecretString::from(variable("LEASE_INTERNAL_TOKEN")?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let pod = PodSettings {
        cluster_id: "demo".to_owned(),
        node_name: opts.name.clone(),
        endpoint: format!("http://{}", listener.local_addr()?),
        labels: BTreeMap::new(),
        heartbeat: Duration::from_millis(500),
        stale: Duration::from_secs(4),
    };
    let webhook = Webhook::new(Secrets::new(None), WebhookLimits::default())?;
    let handled = Arc::new(Mutex::new(Handled::default()));
    let counted = Counted {
        webhook,
        handled: Arc::clone(&handled),
    };
    let brain = Brain::builder(database, pod, listener)
        .handler("webhook", Arc::new(counted))?
        .mcp(McpSettings {
            secrets: Secrets::new(None),
            project_commands: false,
        })
        .internal_secret(Some(secret))
        .reap_interval(Duration::from_millis(700))
        .start()
        .await?;
    let lender = Lender {
        leases: brain.leases().clone(),
        pod: brain.pod().clone(),
        opts,
    };
    let shutdown = Shutdown::default();
    let drain = shutdown.drain.clone();
    let lending = async {
        let mut nothing = Vec::new();
        let lent = tokio::select! {
            lent = lender.lend() => lent,
            _ = async { tokio::io::stdin().read_to_end(&mut nothing).await } => Ok(()),
        };
        drain.cancel();
        lent
    };
    let (ran, lent) = tokio::join!(brain.run(shutdown), lending);
    lent?;
    ran?;
    let handled = handled.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{}", serde_json::to_string(&*handled)?);
    Ok(())
}

/// Keeps as many benches as it can get, up to [`WANTED`].
struct Lender {
    leases: LeaseService,
    pod: PodId,
    opts: Opts,
}

impl Lender {
    async fn lend(&self) -> Result<()> {
        let mut held = Vec::new();
        loop {
            if held.len() < WANTED
                && let Some(lease) = self.acquire(held.len()).await?
            {
                held.push(lease);
            }
            let mut kept = Vec::new();
            for lease in held {
                match lease.check().await {
                    // It was taken for dead, on a machine that is too busy: the bench is another's.
                    Err(CheckError::Lost(lost)) => eprintln!("pod {}: {lost}", self.opts.name),
                    Ok(()) | Err(CheckError::Unavailable(_)) => kept.push(lease),
                }
            }
            held = kept;
            tokio::time::sleep(CHECKED_EVERY).await;
        }
    }

    /// One bench, if there is one within the definition's wait.
    async fn acquire(&self, user: usize) -> Result<Option<Lease>> {
        let url = format!("{}/off/{}", self.opts.plug, Uuid::new_v4().simple());
        let user = format!("{}-{user}", self.opts.name);
        let request = LeaseRequest::builder()
            .lease_type(webhook::lease_type()?)
            .lease(LeaseRef::named(BENCH)?)
            .tenancy(Tenancy::new("acme", "lab", user)?)
            .holder_ref(self.opts.name.clone())
            .pod(self.pod.clone())
            .payload(WebhookPayload::new(&url)?.to_document())
            .build();
        match self.leases.acquire(request).await {
            Ok(lease) => Ok(Some(lease)),
            Err(AcquireError::Busy(_) | AcquireError::Unavailable(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
