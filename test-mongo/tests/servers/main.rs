//! Servers do what their types promise: end with their parent, pause, keep their data, fail over.

mod fail_points;
mod parent;
mod replica_set;
mod single;
