//! What cleans up behind revoked leases, by lease type.

pub mod webhook;
