//! One attempt at a lease: holder, bookings, HELD; and how it is undone.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Document;
use tokio::time::Instant;

use super::Inner;
use crate::definition::LeaseDefinition;
use crate::error::Unavailable;
use crate::funnel::Funnel;
use crate::lease::Lease;
use crate::name::{LeaseToken, LeaseType, PodId};
use crate::request::LeaseRequest;
use crate::revocation::{Revocation, RevocationReason, SlotReturn};
use crate::scope::Tenancy;
use crate::store::counters::Booking;
use crate::store::holders::NewHolder;
use crate::store::{Acknowledge, OPERATION, StoreError, until_known};

/// How long something that must be undone is tried before it is left to the next sweep.
const UNDO: Duration = Duration::from_secs(40);

/// What one request asks for under one definition.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) definition: Arc<LeaseDefinition>,
    pub(crate) funnel: Funnel,
    pub(crate) keys: Vec<String>,
    pub(crate) lease_type: LeaseType,
    slot_return: SlotReturn,
    tenancy: Tenancy,
    holder_ref: String,
    pod: Option<PodId>,
    pod_bound: bool,
    payload: Document,
}

impl Plan {
    pub(crate) fn new(
        request: &LeaseRequest,
        definition: Arc<LeaseDefinition>,
        slot_return: SlotReturn,
    ) -> Self {
        let funnel = Funnel::plan(&definition, &request.tenancy);
        Self {
            keys: funnel.keys(),
            funnel,
            definition,
            lease_type: request.lease_type.clone(),
            slot_return,
            tenancy: request.tenancy.clone(),
            holder_ref: request.holder_ref.clone(),
            pod: request.pod.clone(),
            pod_bound: request.pod_bound,
            payload: request.payload.clone(),
        }
    }

    /// What a handler would get of a lease under this plan; nothing without a pod.
    pub(crate) fn revocation(
        &self,
        token: &LeaseToken,
        reason: RevocationReason,
    ) -> Option<Revocation> {
        Some(Revocation {
            pod: Some(self.pod.clone()?),
            token: token.clone(),
            lease_type: self.lease_type.clone(),
            reason,
            tenancy: self.tenancy.clone(),
            holder_ref: self.holder_ref.clone(),
            pod_bound: self.pod_bound,
            payload: self.payload.clone(),
        })
    }

    /// How many slots the counter of this step has.
    pub(crate) fn cap(&self, step: usize) -> usize {
        self.funnel.steps()[step].cap.get().into()
    }
}

/// How an attempt ended, when the store's answers were certain.
pub(crate) enum Attempt {
    Held(Lease),
    /// The counter of this step is full. Nothing is held or booked any more.
    Full(usize),
}

/// Tries once to get the lease, in three commands. Whatever it cannot finish by the deadline is undone in the
/// background.
pub(crate) async fn attempt(
    inner: Arc<Inner>,
    plan: Arc<Plan>,
    deadline: Instant,
) -> Result<Attempt, Unavailable> {
    let token = open(&inner, &plan, deadline).await?;
    let store = &inner.store;
    let name = &plan.definition.name;
    let booking = until_known(deadline, || {
        store.book(&token, name, &plan.funnel, deadline)
    })
    .await;
    match booking {
        Ok(answer) => match answer.value {
            Booking::Complete => {}
            Booking::FullAt(step) => {
                give_back(&inner, token, &plan.keys[..step], deadline).await;
                return Ok(Attempt::Full(step));
            }
        },
        Err(error) => {
            inner.undo(token, plan.keys.clone());
            return Err(error.into());
        }
    }
    match until_known(deadline, || store.mark_held(&token, deadline)).await {
        Ok(answer) if answer.value => Ok(Attempt::Held(Lease::held(inner, token, &plan))),
        Ok(_) => {
            // A reaper was faster. It knew the keys but not which of them were booked by then.
            inner.unbook_later(token, plan.keys.clone());
            Err(Unavailable::Reaped)
        }
        Err(error) => {
            inner.undo(token, plan.keys.clone());
            Err(error.into())
        }
    }
}

/// Opens a holder under a fresh token. One whose fate is unknown is abandoned, for a second sending under the same token
/// might come after a reaper has taken the first.
async fn open(
    inner: &Arc<Inner>,
    plan: &Plan,
    deadline: Instant,
) -> Result<LeaseToken, StoreError> {
    let fresh = || async {
        let token = LeaseToken::fresh();
        let holder = NewHolder {
            token: &token,
            lease: &plan.definition.name,
            resource: &plan.definition.resource,
            lease_type: &plan.lease_type,
            keys: &plan.keys,
            tenancy: &plan.tenancy,
            holder_ref: &plan.holder_ref,
            pod: plan.pod.as_ref(),
            pod_bound: plan.pod_bound,
            payload: &plan.payload,
            slot_return: plan.slot_return,
            ttl: plan.definition.ttl,
        };
        let opened = inner.store.open(&holder, deadline).await;
        match opened {
            Ok(()) => Ok(token),
            // It was never sent.
            Err(error) if error.is_unreachable() => Err(error),
            Err(error) => {
                inner.undo(token, Vec::new());
                Err(error)
            }
        }
    };
    Ok(until_known(deadline, fresh).await?.value)
}

/// Undoes an attempt that met a full counter, so that the narrow slots it had booked are free for others at once.
async fn give_back(inner: &Arc<Inner>, token: LeaseToken, booked: &[String], deadline: Instant) {
    // This document was acknowledged once and is never sent again, so one node's word for its end will do: should a
    // failover bring it back, it is a PENDING that the sweep removes.
    let taken = inner
        .store
        .take(&token, Acknowledge::Primary, deadline)
        .await;
    let unbooked = match taken {
        Ok(_) => inner.store.unbook(&token, booked, deadline).await,
        Err(error) => Err(error),
    };
    match unbooked {
        Ok(()) => inner.lines.call(booked),
        Err(_) => inner.undo(token, booked.to_vec()),
    }
}

impl Inner {
    /// Removes a holder that was never promised to anybody and then unbooks it, in the background.
    pub(crate) fn undo(self: &Arc<Self>, token: LeaseToken, keys: Vec<String>) {
        let inner = Arc::clone(self);
        self.spawn(async move {
            let store = &inner.store;
            let take = || store.take(&token, Acknowledge::Majority, Instant::now() + OPERATION);
            match until_known(Instant::now() + UNDO, take).await {
                Ok(_) => {
                    inner.unbook_all(&token, &keys).await;
                }
                Err(error) => {
                    tracing::warn!(%error, lease.token = %token, "left to the next sweep")
                }
            }
        });
    }

    /// Unbooks in the background.
    pub(crate) fn unbook_later(self: &Arc<Self>, token: LeaseToken, keys: Vec<String>) {
        let inner = Arc::clone(self);
        self.spawn(async move {
            inner.unbook_all(&token, &keys).await;
        });
    }

    /// False: it could not be done in time.
    pub(crate) async fn unbook_all(&self, token: &LeaseToken, keys: &[String]) -> bool {
        let store = &self.store;
        let unbook = || store.unbook(token, keys, Instant::now() + OPERATION);
        match until_known(Instant::now() + UNDO, unbook).await {
            Ok(_) => {
                self.lines.call(keys);
                true
            }
            Err(error) => {
                tracing::warn!(%error, lease.token = %token, "left to the next reconcile");
                false
            }
        }
    }
}
