//! The names and labels of the brain's own metrics; those of leases are in `lease_shared::metrics`.

use metrics::{counter, gauge};

/// Clean-ups by handlers, by `type` and `outcome` (`ok`, `error`).
pub const HANDLER: &str = "vance.lease.handler";
/// DELETEs for revoked sessions at MCP servers, by `outcome` (`gone`, `unknown`, `omitted` where the tool points elsewhere now).
pub const MCP_DELETE: &str = "vance.mcp.delete";
/// Leases by `state` (`pending`, `held`, `revoking`, `failed`). Not a number while the store has not been read.
pub const HOLDERS: &str = "vance.lease.holders";
/// Revocations by `state` (`waiting`, `failed`). An alert on `failed` above 0 is worth having.
pub const REVOCATIONS: &str = "vance.lease.revocations";
/// Pods by `state` (`alive`, `dead`).
pub const PODS: &str = "vance.lease.pods";
/// Seconds since the last sweep of this pod ended that could look at everything; since the pod's start before the first.
pub const SWEEP_AGE: &str = "vance.lease.sweep.age.seconds";
/// What sweeps could not do, for the next to try again.
pub const SWEEP_FAILED: &str = "vance.lease.sweep.failed";
/// Sweeps that ended in a panic.
pub const SWEEP_PANICS: &str = "vance.lease.sweep.panics";
/// Sweeps in which leases of dead pods were left alone, for too many pods looked dead at once.
pub const SWEEP_HELD_BACK: &str = "vance.lease.sweep.held.back";
/// Counters that differed from their holders at the last reconcile.
pub const DRIFT: &str = "vance.lease.drift";

pub(crate) fn handled(lease_type: &str, well: bool) {
    let outcome = if well { "ok" } else { "error" };
    counter!(HANDLER, "type" => lease_type.to_owned(), "outcome" => outcome).increment(1);
}

pub(crate) fn mcp_delete(outcome: &'static str) {
    counter!(MCP_DELETE, "outcome" => outcome).increment(1);
}

pub(crate) fn set(name: &'static str, state: &'static str, value: Option<u64>) {
    gauge!(name, "state" => state).set(value.map_or(f64::NAN, |value| value as f64));
}
