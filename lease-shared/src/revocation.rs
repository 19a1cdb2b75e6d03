//! Revocations: what became of a lease that its holder did not give back, and who is told.

use std::collections::HashMap;
use std::fmt;

use mongodb::bson::Document;
use serde::{Deserialize, Serialize};

use crate::name::{InvalidName, LeaseToken, LeaseType, PodId};
use crate::scope::Tenancy;
use crate::store::documents::HolderDoc;
pub use crate::store::documents::SlotReturn;

/// Why a lease was taken from its holder; also the `reason` label of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RevocationReason {
    /// It was not used for longer than its time to live.
    Idle,
    /// The pod that held it is dead.
    Pod,
    /// An operator said so.
    Revoke,
}

impl RevocationReason {
    /// The reason as it is stored and counted.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Pod => "pod",
            Self::Revoke => "revoke",
        }
    }
}

impl fmt::Display for RevocationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "it was not used within its time to live",
            Self::Pod => "its pod died",
            Self::Revoke => "an operator revoked it",
        })
    }
}

/// A lease that has just been taken from its holder, with what its clean-up needs.
#[derive(Debug, Clone)]
pub struct Revocation {
    /// The lease.
    pub token: LeaseToken,
    /// Which handler cleans up.
    pub lease_type: LeaseType,
    /// Why it was taken.
    pub reason: RevocationReason,
    /// Who held it.
    pub tenancy: Tenancy,
    /// The consumer's own id for its holder.
    pub holder_ref: String,
    /// The pod that held it, if it was one.
    pub pod: Option<PodId>,
    /// Did the resource live in that pod?
    pub pod_bound: bool,
    /// What the consumer left for the clean-up.
    pub payload: Document,
}

impl Revocation {
    /// What its handler gets of a holder; or what is wrong with it.
    pub(crate) fn of(holder: HolderDoc) -> Result<Self, String> {
        let problem = |error: InvalidName| format!("holder {}: {error}", holder.token);
        let tenancy = Tenancy::new(&holder.tenant_id, &holder.project_id, &holder.user_id);
        let pod = holder.pod.as_ref().map(PodId::new).transpose();
        Ok(Self {
            tenancy: tenancy.map_err(problem)?,
            pod: pod.map_err(problem)?,
            reason: match &holder.revocation {
                Some(revocation) => revocation.reason,
                None => return Err(format!("holder {}: is not being revoked", holder.token)),
            },
            token: holder.token,
            lease_type: holder.lease_type,
            holder_ref: holder.holder_ref,
            pod_bound: holder.pod_bound,
            payload: holder.payload,
        })
    }
}

/// Where the slot of a revoked lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum SlotAfter {
    /// It is free; a clean-up may still be under way.
    Free,
    /// It comes back when the clean-up is done.
    WhenCleanedUp,
    /// The lease has no pod, so nobody can reach its holder: the slot comes back when that says that it has ended, or
    /// its time is over, and the clean-up is done after that.
    WhenEnded,
}

impl SlotAfter {
    pub(crate) fn of(holder: &HolderDoc) -> Self {
        match (holder.slot_return, &holder.pod) {
            (SlotReturn::AtOnce, _) => Self::Free,
            (SlotReturn::AfterCleanup, Some(_)) => Self::WhenCleanedUp,
            (SlotReturn::AfterCleanup, None) => Self::WhenEnded,
        }
    }
}

/// What an operator's revocation did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Revoked {
    /// It was held until now, and is not any more.
    Now(SlotAfter),
    /// It was being revoked before.
    Already(SlotAfter),
    /// There is no such lease: released, or revoked and cleaned up.
    NotHeld,
    /// It is still being acquired; held or gone within seconds.
    StillAcquiring,
    /// It is held by this pod, and not by the one that was meant.
    OtherPod(Option<String>),
    /// It is another user's than the one that was meant.
    OtherUser,
}

/// Where a process that reaps leaves what it has revoked: the one way from here up to the handlers.
///
/// The state of a revocation is in the store, so nothing is lost when a listener drops it: any process with handlers
/// finds the REVOKING document and goes on.
pub trait RevocationListener: fmt::Debug + Send + Sync + 'static {
    /// When the slot of a revoked lease of this type comes back; nothing for a type that this process does not know,
    /// whose acquire is then refused. Asked at each acquire, before any traffic. `command` is not asked for.
    fn slot_return(&self, lease_type: &LeaseType) -> Option<SlotReturn>;

    /// A lease was revoked. Must not block: the acquirer whose attempt reaped it waits for this call.
    fn revoked(&self, revocation: Revocation);
}

/// The listener of a process without handlers: it knows some lease types, and leaves the clean-up to a process that has
/// their handlers.
#[derive(Debug, Clone, Default)]
pub struct KnownTypes(HashMap<LeaseType, SlotReturn>);

impl KnownTypes {
    /// Knows `command` alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// Knows one more type.
    #[must_use]
    pub fn with(mut self, lease_type: LeaseType, slot_return: SlotReturn) -> Self {
        self.0.insert(lease_type, slot_return);
        self
    }
}

impl RevocationListener for KnownTypes {
    fn slot_return(&self, lease_type: &LeaseType) -> Option<SlotReturn> {
        self.0.get(lease_type).copied()
    }

    fn revoked(&self, revocation: Revocation) {
        tracing::info!(
            lease.token = %revocation.token,
            lease.r#type = %revocation.lease_type,
            reason = revocation.reason.as_str(),
            "revoked; its clean-up is left to a process with handlers"
        );
    }
}
