//! The lease core against a real MongoDB: each module is one behaviour.

mod acquire;
mod actor;
mod busy;
mod check;
mod crash;
mod journal;
#[path = "../actor/protocol.rs"]
mod protocol;
mod races;
mod reap;
mod reconcile;
mod round_trips;
mod support;
mod waiting;
