//! A lease as its holder sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mongodb::bson::Document;
use tokio::time::Instant;

use crate::error::{CheckError, Lost};
use crate::metrics;
use crate::name::{LeaseName, LeaseToken, Resource};
use crate::service::Inner;
use crate::service::attempt::Plan;
use crate::store::{OPERATION, StoreError};

/// What a release did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The lease was held until now.
    Released,
    /// It had been released, or revoked, before. Nobody else's slot was touched.
    AlreadyReleased,
    /// There was nothing to hold.
    Noop,
}

/// A slot on a resource, held until it is released, or is not used for longer than its time to live.
///
/// Dropping an unreleased lease queues a release without waiting for it. Should that fail, the time to live ends it.
#[derive(Debug)]
pub struct Lease(Kind);

#[derive(Debug)]
enum Kind {
    /// Nothing limits the resource; every call succeeds without traffic.
    Noop(Option<Resource>),
    Held(Held),
}

#[derive(Debug)]
struct Held {
    service: Arc<Inner>,
    token: LeaseToken,
    name: LeaseName,
    resource: Resource,
    label: String,
    keys: Vec<String>,
    ttl: Duration,
    acquired: Instant,
    /// How many payloads were written, so that a late copy of an older one does not replace a newer.
    payloads: AtomicI64,
    /// When the last check that succeeded was sent.
    last_check: Mutex<Instant>,
    /// No drop needs to release it any more.
    done: AtomicBool,
}

impl Lease {
    pub(crate) fn noop(resource: Option<Resource>) -> Self {
        Self(Kind::Noop(resource))
    }

    pub(crate) fn held(service: Arc<Inner>, token: LeaseToken, plan: &Plan) -> Self {
        let resource = plan.definition.resource.clone();
        service.here.add(&token, plan);
        Self(Kind::Held(Held {
            service,
            token,
            name: plan.definition.name.clone(),
            label: plan.definition.metric_label.clone(),
            resource,
            keys: plan.keys.clone(),
            ttl: plan.definition.ttl.as_duration(),
            acquired: Instant::now(),
            payloads: AtomicI64::new(0),
            last_check: Mutex::new(Instant::now()),
            done: AtomicBool::new(false),
        }))
    }

    /// Is there nothing to hold?
    pub fn is_noop(&self) -> bool {
        matches!(self.0, Kind::Noop(_))
    }

    /// The lease's identity, unless it is a NOOP.
    pub fn token(&self) -> Option<&LeaseToken> {
        Some(&self.as_held()?.token)
    }

    /// The definition it was acquired under, unless it is a NOOP.
    pub fn name(&self) -> Option<&LeaseName> {
        Some(&self.as_held()?.name)
    }

    /// The resource it is a slot on, if any definition was asked for.
    pub fn resource(&self) -> Option<&Resource> {
        match &self.0 {
            Kind::Noop(resource) => resource.as_ref(),
            Kind::Held(held) => Some(&held.resource),
        }
    }

    /// How long it lives after its last use, unless it is a NOOP.
    pub fn ttl(&self) -> Option<Duration> {
        Some(self.as_held()?.ttl)
    }

    fn as_held(&self) -> Option<&Held> {
        match &self.0 {
            Kind::Noop(_) => None,
            Kind::Held(held) => Some(held),
        }
    }

    /// Asks the store whether the lease is still held, and restarts its time to live. To be called before every use of
    /// the resource: the time to live must be longer than the longest gap between two calls.
    ///
    /// # Errors
    /// [`CheckError::Lost`]: stop using the resource. [`CheckError::Unavailable`]: nothing is known, check again. It
    /// answers within 4.5 seconds.
    ///
    /// # Cancellation
    /// Harmless. The time to live may or may not have been restarted.
    pub async fn check(&self) -> Result<(), CheckError> {
        let Some(held) = self.as_held() else {
            return Ok(());
        };
        let sent = held.begin_use();
        let checked = held.service.check(&held.token).await;
        held.end_use(sent, checked)
    }

    /// Replaces what the clean-up after a revocation will get. Counts as a use. No secrets: operators see it.
    ///
    /// # Errors
    /// As [`Lease::check`]. A document of more than 256 KiB, or nested more than 32 deep, is refused as unavailable.
    pub async fn update_payload(&self, payload: Document) -> Result<(), CheckError> {
        let Some(held) = self.as_held() else {
            return Ok(());
        };
        let sent = held.begin_use();
        let deadline = sent + OPERATION;
        let store = &held.service.store;
        let number = held.payloads.fetch_add(1, Ordering::Relaxed) + 1;
        let write = || store.set_payload(&held.token, &payload, number, deadline);
        let written = held.service.still_held(&held.token, write, deadline).await;
        // Also if that is not known: what the handler gets may be the newer one.
        held.service.here.set_payload(&held.token, &payload);
        held.end_use(sent, written)
    }

    /// Gives the slot back. Idempotent. Returns when the holder is gone; its slots follow in the background.
    ///
    /// # Errors
    /// The store could not be asked. Try again, or let the time to live end it.
    ///
    /// # Cancellation
    /// The release goes on in the background.
    pub async fn release(&self) -> Result<Release, StoreError> {
        let Some(held) = self.as_held() else {
            return Ok(Release::Noop);
        };
        held.service.here.remove(&held.token);
        let released = held
            .service
            .release(&held.token, held.keys.clone(), Some(held.label.clone()))
            .await;
        match &released {
            Ok(release) => {
                let first = !held.done.swap(true, Ordering::AcqRel);
                if *release == Release::Released && first {
                    metrics::held_for(&held.label, held.acquired.elapsed());
                }
                let outcome = match release {
                    Release::Released => "ok",
                    Release::AlreadyReleased | Release::Noop => "already-released",
                };
                metrics::released(&held.label, outcome);
            }
            Err(_) => metrics::released(&held.label, "error"),
        }
        released
    }

    /// Lets go of the handle but not of the lease, which from now on lives by its token; see
    /// [`crate::LeaseService::check_token`] and [`crate::LeaseService::release_token`]. Nothing for a NOOP.
    pub fn into_token(self) -> Option<LeaseToken> {
        let held = self.as_held()?;
        held.done.store(true, Ordering::Release);
        held.service.here.remove(&held.token);
        Some(held.token.clone())
    }
}

impl Held {
    fn begin_use(&self) -> Instant {
        let now = Instant::now();
        let gap = now - *self.last_check();
        if gap * 2 > self.ttl {
            metrics::check_late(&self.label);
            tracing::warn!(
                lease.token = %self.token,
                lease.resource = %self.resource,
                gap.seconds = gap.as_secs_f64(),
                ttl.seconds = self.ttl.as_secs_f64(),
                "a check came late: the gap since the last is more than half the time to live"
            );
        }
        now
    }

    fn end_use(&self, sent: Instant, outcome: Result<(), CheckError>) -> Result<(), CheckError> {
        match outcome {
            Ok(()) => {
                *self.last_check() = sent;
                metrics::checked(&self.label, "ok");
                Ok(())
            }
            Err(CheckError::Lost(lost)) => {
                // Its holder knows now, and ends what runs under it.
                self.service.here.remove(&self.token);
                metrics::checked(&self.label, "lost");
                Err(CheckError::Lost(Lost {
                    last_seen: lost.last_seen.or_else(|| Some(self.last_check().elapsed())),
                    ttl: Some(self.ttl),
                    ..lost
                }))
            }
            Err(unavailable) => {
                metrics::checked(&self.label, "unavailable");
                Err(unavailable)
            }
        }
    }

    fn last_check(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.last_check
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.done.load(Ordering::Acquire) {
            return;
        }
        tracing::debug!(lease.token = %self.token, "dropped without a release; releasing in the background");
        self.service.here.remove(&self.token);
        let keys = std::mem::take(&mut self.keys);
        self.service
            .release_dropped(self.token.clone(), keys, self.label.clone());
    }
}
