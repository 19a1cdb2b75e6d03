#![doc = include_str!("../README.md")]

mod level;
mod name;
mod scope;

pub use level::{Cap, Level, TtlSeconds, WaitMs};
pub use name::{InvalidName, LeaseName, LeaseToken, LeaseType, PodId, Resource};
pub use scope::{CounterKey, Scope, Tenancy};
