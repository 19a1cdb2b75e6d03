#![doc = include_str!("../README.md")]

mod cleanup;
pub mod definition;
mod error;
mod failpoint;
mod funnel;
mod handler;
mod lease;
mod level;
pub mod metrics;
mod name;
mod reaper;
mod reconciler;
mod request;
mod revocation;
mod scope;
mod service;
mod store;
mod view;

/// The driver that databases and payloads are of. Through here nobody gets another version of it.
pub use mongodb;
/// The documents of payloads, in the version that the driver reads and writes.
pub use mongodb::bson;

pub use cleanup::{Cleanup, Cleanups, Due, NextTry};
pub use error::{
    AcquireError, Busy, CheckError, HolderIdentity, InvalidRequest, Lost, OldestHolder,
    Unavailable, in_full,
};
pub use handler::{HandlerError, LeaseHandler};
pub use lease::{Lease, Release};
pub use level::{Cap, Level, TtlSeconds, WaitMs};
pub use name::{InvalidName, LeaseName, LeaseToken, LeaseType, PodId, Resource};
pub use reaper::{Reaped, SweepReport};
pub use reconciler::{Drift, Orphan, ReconcileReport, Reconciler};
pub use request::{LeaseRef, LeaseRequest, OnBusy};
pub use revocation::{
    KnownTypes, Revocation, RevocationListener, RevocationReason, Revoked, SlotAfter, SlotReturn,
};
pub use scope::{CounterKey, Scope, Tenancy};
pub use service::{Decision, Holding, LeaseService};
pub use store::documents::HolderState;
pub use store::holdings::Held;
pub use store::{StoreError, apply_time_limits, connect, is_transient};
pub use view::broken::{AnyLease, BrokenCleanup, BrokenLease};
pub use view::tenant::{
    CounterQuery, HolderOrder, HolderQuery, Part, PartOf, TenantCounter, TenantViews, ViewError,
    WholeHolder,
};
pub use view::{
    CleanupPhase, CleanupView, CounterView, Filter, HolderView, LeaseViews, LevelUse, Listed,
    Totals,
};

#[cfg(feature = "testing")]
pub use failpoint::{Failpoints, Gate, Phase};
