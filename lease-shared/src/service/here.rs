//! The leases that this process holds as a pod, so that it can ask about all of them when it may have been taken for dead.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use mongodb::bson::Document;

use super::LeaseService;
use super::attempt::Plan;
use crate::name::LeaseToken;
use crate::revocation::{Revocation, RevocationReason};
use crate::store::documents::HolderState;
use crate::store::{StoreError, deadline, until_known};

/// How many leases are asked about at the same time.
const TOGETHER: usize = 8;

/// Leases held by this process under a pod's name, with what their handlers would need.
#[derive(Debug, Default)]
pub(crate) struct Here(Mutex<HashMap<LeaseToken, Revocation>>);

impl Here {
    pub(crate) fn add(&self, token: &LeaseToken, plan: &Plan) {
        if let Some(revocation) = plan.revocation(token, RevocationReason::Pod) {
            self.map().insert(token.clone(), revocation);
        }
    }

    pub(crate) fn set_payload(&self, token: &LeaseToken, payload: &Document) {
        if let Some(revocation) = self.map().get_mut(token) {
            revocation.payload = payload.clone();
        }
    }

    /// Before a release is sent, or its lease would look lost while it goes.
    pub(crate) fn remove(&self, token: &LeaseToken) -> Option<Revocation> {
        self.map().remove(token)
    }

    fn map(&self) -> MutexGuard<'_, HashMap<LeaseToken, Revocation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseService {
    /// How many leases this process holds as a pod.
    pub fn held_here(&self) -> usize {
        self.inner.here.map().len()
    }

    /// Asks about every lease that this process holds as a pod, and gives those that it lost, each once: nobody else
    /// could reach what runs here under them. For a pod that was paused or cut off for so long that others may have
    /// taken it for dead.
    ///
    /// # Errors
    /// The store cannot be asked. What was found lost until then is given by the next call.
    pub async fn lost_here(&self) -> Result<Vec<Revocation>, StoreError> {
        let inner = &self.inner;
        let tokens: Vec<LeaseToken> = inner.here.map().keys().cloned().collect();
        let asked = futures_util::stream::iter(tokens)
            .map(async |token| {
                let deadline = deadline();
                let holder = match inner.store.holder(&token, deadline).await {
                    // One that cannot be read must not hide the others; the write will say whether it is held.
                    Err(error) if !error.is_transient() => None,
                    read => read?,
                };
                if holder
                    .as_ref()
                    .is_some_and(|holder| holder.state == HolderState::Held)
                {
                    return Ok(None);
                }
                // A read may come from a primary that is behind. A write that does not match cannot.
                let touch = || inner.store.touch(&token, deadline);
                if until_known(deadline, touch).await?.value {
                    return Ok(None);
                }
                let reason = holder.and_then(|holder| Some(holder.revocation?.reason));
                Ok(Some((token, reason)))
            })
            .buffer_unordered(TOGETHER)
            .collect::<Vec<Result<_, StoreError>>>()
            .await;
        let mut lost = Vec::new();
        let mut problem = None;
        for answer in asked {
            match answer {
                Ok(None) => {}
                Ok(Some(found)) => lost.push(found),
                Err(error) => problem = Some(error),
            }
        }
        if let Some(error) = problem {
            return Err(error);
        }
        // What is not here any more was released meanwhile by its own holder.
        Ok(lost
            .into_iter()
            .filter_map(|(token, reason)| {
                let mut revocation = inner.here.remove(&token)?;
                revocation.reason = reason.unwrap_or(revocation.reason);
                Some(revocation)
            })
            .collect())
    }
}
