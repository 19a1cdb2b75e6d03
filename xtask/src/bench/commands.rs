//! Commands per operation, counted by the driver's monitoring.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use lease_shared::AcquireError;
use mongodb::bson::Document;
use serde::Serialize;

use super::{Bench, request};

/// Commands per operation.
#[derive(Debug, Serialize)]
pub(crate) struct Commands {
    acquire4: usize,
    release4: usize,
    check: usize,
    /// Of one waiting poll.
    poll: usize,
    noop: usize,
    /// Of an acquire that is told busy at once, with all four levels and the widest full.
    busy: usize,
}

/// The commands that one client has sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<Document>>>);

impl Heard {
    pub(crate) fn hear(&self, command: &Document) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(command.clone());
    }

    fn take(&self) -> Vec<Document> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) async fn count(bench: &Bench) -> Result<Commands> {
    let heard = Heard::default();
    let leases = bench.service(Some(heard.clone())).await?;
    let at_once = Duration::ZERO;
    for name in ["four", "scarce", "free"] {
        // The definitions are cached from here on.
        leases
            .acquire(request(name, at_once)?)
            .await?
            .release()
            .await?;
    }
    leases.close().await;
    leases.reconciler().reconcile(false).await?;

    heard.take();
    let lease = leases.acquire(request("four", at_once)?).await?;
    let acquire4 = heard.take().len();
    lease.check().await?;
    let check = heard.take().len();
    lease.release().await?;
    leases.close().await;
    let release4 = heard.take().len();

    let noop = leases.acquire(request("free", at_once)?).await?;
    noop.check().await?;
    noop.release().await?;
    let noop = heard.take().len();

    let held = leases.acquire(request("scarce", at_once)?).await?;
    heard.take();
    let refused = leases.acquire(request("scarce", at_once)?).await;
    ensure!(
        matches!(refused, Err(AcquireError::Busy(_))),
        "the level was not full"
    );
    let busy = heard.take().len();

    let refused = leases
        .acquire(request("scarce", Duration::from_secs(3))?)
        .await;
    ensure!(
        matches!(refused, Err(AcquireError::Busy(_))),
        "the level was not full"
    );
    // Between the first attempt with its diagnosis and the last diagnosis there are polls alone.
    let waited = heard.take();
    let polling = waited
        .get(busy..waited.len().saturating_sub(2))
        .unwrap_or_default();
    let polls = polling
        .iter()
        .filter(|command| command.contains_key("find"))
        .count();
    ensure!(polls > 0, "a wait of three seconds polled nothing");
    let poll = polling.len().div_ceil(polls);
    held.release().await?;
    leases.close().await;
    Ok(Commands {
        acquire4,
        release4,
        check,
        poll,
        noop,
        busy,
    })
}
