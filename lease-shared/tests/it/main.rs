//! The lease core against a real MongoDB: each module is one behaviour.

mod acquire;
mod busy;
mod check;
mod reap;
mod reconcile;
mod round_trips;
mod support;
mod waiting;
