//! What the `lease` and `brain` binaries are made of.

pub mod args;
pub mod cluster;
pub mod supervise;
pub mod telemetry;
