//! The lease core against a real MongoDB: each module is one behaviour.

mod acquire;
mod actor;
mod busy;
mod check;
mod closing;
mod crash;
mod flapping;
mod journal;
mod late;
mod outage;
#[path = "../actor/protocol.rs"]
mod protocol;
mod races;
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
