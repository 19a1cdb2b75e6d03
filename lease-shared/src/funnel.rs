//! The funnel: which counters an acquisition books, narrow to wide.

use crate::definition::LeaseDefinition;
use crate::level::{Cap, Level};
use crate::scope::{CounterKey, Tenancy};

/// One counter to book, and how many may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) key: CounterKey,
    pub(crate) cap: Cap,
}

/// The capped levels of one acquisition. Empty: nothing to book, a NOOP lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Funnel(Vec<Step>);

impl Funnel {
    /// A step for each level with a cap. The global counter carries the resource that bundled or system documents
    /// name, whatever a tenant calls its own.
    pub(crate) fn plan(definition: &LeaseDefinition, tenancy: &Tenancy) -> Self {
        let step = |level| {
            let cap = definition.cap(level)?;
            let resource = definition.resource_at(level).clone();
            let key = CounterKey::new(resource, level, tenancy);
            Some(Step { key, cap })
        };
        Self(Level::NARROW_TO_WIDE.into_iter().filter_map(step).collect())
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.0.iter().map(|step| step.key.to_string()).collect()
    }
}
