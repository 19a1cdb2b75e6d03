#![doc = include_str!("../README.md")]

mod definition;
mod level;
mod name;
mod scope;

pub use definition::{
    Caps, ConfigDocuments, DefinitionResolver, DefinitionWatch, DirectoryDocuments,
    DocumentAddress, DocumentError, DocumentStoreError, Field, Ignored, InlineDefinition, Layer,
    LayerDocument, LeaseDefinition, MergedCaps, MergedDefinition, MongoDocuments, ResolveError,
    Source, Sourced, merge,
};
pub use level::{Cap, Level, TtlSeconds, WaitMs};
pub use name::{InvalidName, LeaseName, LeaseToken, LeaseType, PodId, Resource};
pub use scope::{CounterKey, Scope, Tenancy};
