//! A service that is a pod itself: it holds a bench in its pod's name, and cleans up behind pods of its kind that died.
//!
//! It runs until INT or TERM, beside any number of brains, on the MongoDB of `MONGODB_URI` and the database of
//! `LEASE_DATABASE`; brains and operators reach it with the secret of `LEASE_INTERNAL_TOKEN_FILE`. The lease `bench` must be
//! defined there.

use std::env;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lease_brain::args::internal_token;
use lease_brain::{Brain, PodSettings, Shutdown, metrics, telemetry};
use lease_shared::bson::doc;
use lease_shared::{
    CheckError, HandlerError, Lease, LeaseHandler, LeaseRef, LeaseRequest, LeaseType, Revocation,
    SlotReturn, Tenancy, connect,
};
use tokio::net::TcpListener;
use tokio::time::sleep;

type AnyError = Box<dyn Error + Send + Sync>;

/// Far below the time to live of a bench.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// What is left behind where a lease of type `bench` is revoked: a bench under power.
#[derive(Debug)]
struct Bench;

impl LeaseHandler for Bench {
    /// A bench is exclusive: nobody gets it before it is off.
    fn slot_return(&self) -> SlotReturn {
        SlotReturn::AfterCleanup
    }

    fn on_revoked<'a>(
        &'a self,
        revocation: &'a Revocation,
    ) -> BoxFuture<'a, Result<(), HandlerError>> {
        Box::pin(async move {
            let plug = revocation.payload.get_str("plug")?;
            eprintln!("bench_pod: plug {plug} is switched off"); // a real one would call its power supply
            Ok(())
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    telemetry::init()?;
    let uri = env::var("MONGODB_URI").map_err(|_| "set MONGODB_URI, as target/dev/env does")?;
    let name = env::var("LEASE_DATABASE").unwrap_or_else(|_| "lease".to_owned());
    let database = connect(&uri).await?.database(&name);
    let file = env::var_os("LEASE_INTERNAL_TOKEN_FILE").map(Into::into);
    let secret = internal_token("LEASE_INTERNAL_TOKEN", None, file)?;
    let shutdown = Shutdown::on_signals()?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let pod = PodSettings::new("bench-1", format!("http://{}", listener.local_addr()?));
    let starting = Brain::builder(database, pod, listener)
        .handler("bench", Arc::new(Bench))?
        .internal_secret(secret)
        .metrics(metrics::install()?)
        .start();
    let brain = tokio::select! {
        () = shutdown.drain.cancelled() => return Ok(()), // nothing is held yet
        brain = starting => brain?,
    };

    let (leases, pod) = (brain.leases().clone(), brain.pod().clone());
    let stopping = brain.stopping();
    let holding = async {
        let request = LeaseRequest::builder()
            .lease_type(LeaseType::new("bench")?)
            .lease(LeaseRef::named("bench")?)
            .tenancy(Tenancy::new("acme", "lab", "ada")?)
            .holder_ref("bench_pod")
            .pod(pod)
            .payload(doc! { "plug": "7" }) // what a clean-up will need
            .build();
        let lease = leases.acquire(request).await?;
        let worked = work(&lease, stopping.cancelled()).await;
        lease.release().await?; // the drain waits for it
        Ok::<(), AnyError>(worked?)
    };
    let drain = shutdown.drain.clone();
    let holding = async {
        let held = holding.await;
        drain.cancel(); // without its work this process is of no use
        held
    };
    let (ran, held) = tokio::join!(brain.run(shutdown), holding);
    held?;
    Ok(ran?)
}

/// Uses the bench until it is to stop.
async fn work(lease: &Lease, stopping: impl Future<Output = ()>) -> Result<(), CheckError> {
    tokio::pin!(stopping);
    loop {
        match lease.check().await {
            Ok(()) => eprintln!("bench_pod: the bench is ours"),
            // Its handler switches the bench off.
            Err(lost @ CheckError::Lost(_)) => return Err(lost),
            // Nothing is known: begin nothing, and ask again.
            Err(CheckError::Unavailable(_)) => {}
        }
        tokio::select! {
            () = &mut stopping => return Ok(()),
            () = sleep(CHECKED_EVERY) => {}
        }
    }
}
