//! What the `lease` and `brain` binaries are made of.

pub mod cluster;
pub mod supervise;
