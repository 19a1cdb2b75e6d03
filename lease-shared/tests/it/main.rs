//! The lease core against a real MongoDB: each module is one behaviour.

mod acquire;
mod busy;
mod check;
mod flapping;
mod late;
mod outage;
mod reap;
mod reconcile;
mod relay;
mod replica_set;
mod round_trips;
mod server_down;
mod stage;
mod support;
mod unanswered;
mod waiting;
