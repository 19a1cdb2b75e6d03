#![doc = include_str!("../README.md")]

mod definition;
mod level;
mod name;
mod scope;

pub use definition::{
    Caps, DocumentAddress, DocumentError, Field, Ignored, InlineDefinition, Layer, LayerDocument,
    LeaseDefinition, MergedCaps, MergedDefinition, Source, Sourced, merge,
};
pub use level::{Cap, Level, TtlSeconds, WaitMs};
pub use name::{InvalidName, LeaseName, LeaseToken, LeaseType, PodId, Resource};
pub use scope::{CounterKey, Scope, Tenancy};
