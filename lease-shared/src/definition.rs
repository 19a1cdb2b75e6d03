//! What a lease allows: its caps, its time to live and its wait, merged from the layers that define it.

mod document_error;
mod documents;
mod fields;
mod inline;
mod layer;
mod merge;
mod parse;
mod resolver;
mod watch;
mod whole;

pub use document_error::DocumentError;
pub use documents::{
    ConfigDocuments, DirectoryDocuments, DocumentAddress, DocumentStoreError, MongoDocuments,
};
pub use inline::InlineDefinition;
pub use layer::{Field, Layer, LayerDocument};
pub use merge::{Ignored, MergedCaps, MergedDefinition, Source, Sourced, merge};
pub use parse::read_document;
pub use resolver::{DefinitionResolver, DocumentChange, ResolveError};
pub use watch::DefinitionWatch;
pub use whole::{WholeDocument, all_layers, most_specific};

use crate::level::{Cap, Level, TtlSeconds, WaitMs};
use crate::name::{LeaseName, Resource};

/// The four caps of a definition. An absent one is no bound: the level is passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caps {
    /// Slots of one user.
    pub user: Option<Cap>,
    /// Slots of one project.
    pub project: Option<Cap>,
    /// Slots of one tenant.
    pub tenant: Option<Cap>,
    /// Slots of everybody together.
    pub global: Option<Cap>,
}

impl Caps {
    /// The cap of `level`, if it has one.
    pub fn at(&self, level: Level) -> Option<Cap> {
        match level {
            Level::User => self.user,
            Level::Project => self.project,
            Level::Tenant => self.tenant,
            Level::Global => self.global,
        }
    }

    pub(crate) fn at_mut(&mut self, level: Level) -> &mut Option<Cap> {
        match level {
            Level::User => &mut self.user,
            Level::Project => &mut self.project,
            Level::Tenant => &mut self.tenant,
            Level::Global => &mut self.global,
        }
    }
}

/// A resolved definition: what an acquisition goes by. Nothing in it is optional but the caps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseDefinition {
    /// The name it was asked for by.
    pub name: LeaseName,
    /// What the user, project and tenant counters count. A tenant may choose it.
    pub resource: Resource,
    /// What the global counter counts: as the bundled and system layers say, never as a tenant does, who could
    /// otherwise leave the ceiling behind or fill another resource's.
    pub global_resource: Resource,
    /// The caps of the four levels.
    pub caps: Caps,
    /// How long a lease lives after its last use.
    pub ttl: TtlSeconds,
    /// How long an acquire waits for a slot.
    pub wait: WaitMs,
    /// The `resource` label in metrics.
    pub(crate) metric_label: String,
}

impl LeaseDefinition {
    /// The cap of `level`, if it has one.
    pub fn cap(&self, level: Level) -> Option<Cap> {
        self.caps.at(level)
    }

    /// What the counter of `level` counts.
    pub fn resource_at(&self, level: Level) -> &Resource {
        match level {
            Level::Global => &self.global_resource,
            Level::User | Level::Project | Level::Tenant => &self.resource,
        }
    }
}
