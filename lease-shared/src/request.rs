//! What a consumer asks for.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Document;

use crate::definition::InlineDefinition;
use crate::error::Busy;
use crate::name::{InvalidName, LeaseName, LeaseType, PodId};
use crate::scope::Tenancy;

/// Which definition an acquisition falls under.
#[derive(Debug, Clone)]
pub enum LeaseRef {
    /// None: the consumer's configuration asks for no lease. The acquisition is a NOOP.
    None,
    /// The definition documents of this name.
    Named(LeaseName),
    /// A definition in the consumer's own configuration.
    Inline(InlineDefinition),
}

impl LeaseRef {
    /// A reference by name, checked.
    pub fn named(name: &str) -> Result<Self, InvalidName> {
        LeaseName::new(name).map(Self::Named)
    }

    /// A definition of the consumer's own.
    pub fn inline(definition: InlineDefinition) -> Self {
        Self::Inline(definition)
    }
}

/// Called with the diagnosis each time that a waiting acquire finds its counter full.
pub type OnBusy = Arc<dyn Fn(&Busy) + Send + Sync>;

/// One request for a lease.
///
/// ```
/// use lease_shared::{LeaseRef, LeaseRequest, LeaseType, Tenancy};
///
/// let request = LeaseRequest::builder()
///     .lease_type(LeaseType::command())
///     .lease(LeaseRef::named("tex")?)
///     .tenancy(Tenancy::new("acme", "thesis", "ada")?)
///     .holder_ref("process-17")
///     .build();
/// # Ok::<(), lease_shared::InvalidName>(())
/// ```
#[derive(Clone, bon::Builder)]
pub struct LeaseRequest {
    /// Which handler cleans up after a revocation; set by code, never by configuration.
    pub(crate) lease_type: LeaseType,
    /// The definition to acquire under.
    pub(crate) lease: LeaseRef,
    /// Whose slots it takes.
    pub(crate) tenancy: Tenancy,
    /// The consumer's own id for what holds the lease, shown to operators. At most 256 bytes without control characters.
    #[builder(into, default)]
    pub(crate) holder_ref: String,
    /// The pod that will hold it. Without one, the lease only ever expires.
    pub(crate) pod: Option<PodId>,
    /// Does the resource die with that pod?
    #[builder(default)]
    pub(crate) pod_bound: bool,
    /// What the handler will need for the clean-up, as far as it is known before the lease is held: so there is no moment
    /// in which a crash leaves a handler without it. [`crate::Lease::update_payload`] replaces it.
    #[builder(default)]
    pub(crate) payload: Document,
    /// How long to wait for a slot, in place of the definition's `waitMs`. Zero is one try; more than a day is refused.
    pub(crate) wait: Option<Duration>,
    /// Told, while waiting, who holds what is waited for.
    pub(crate) on_busy: Option<OnBusy>,
}

impl std::fmt::Debug for LeaseRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseRequest")
            .field("lease_type", &self.lease_type)
            .field("lease", &self.lease)
            .field("tenancy", &self.tenancy)
            .field("holder_ref", &self.holder_ref)
            .finish_non_exhaustive()
    }
}
