//! The lease core against a real MongoDB: each module is one behaviour.

mod acquire;
mod actor;
mod busy;
mod check;
mod cleanup;
mod crash;
mod ending;
mod examined;
mod fault;
mod flapping;
mod journal;
mod late;
mod metrics;
mod outage;
mod pods;
#[path = "../actor/protocol.rs"]
mod protocol;
mod races;
mod reap;
mod reconcile;
mod relay;
mod replica_set;
mod revoke;
mod round_trips;
mod server_down;
mod stage;
mod storms;
mod support;
mod tenant;
mod unanswered;
mod untakeable;
mod waiting;
