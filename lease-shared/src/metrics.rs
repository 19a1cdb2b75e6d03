//! The names and labels of all metrics. No tenant, project or user is ever a label.
//!
//! The label `resource` is the one that bundled or system documents name, for a tenant could name any number of its own:
//! every inline definition is `mcp-inline`, every lease that only tenants' or projects' documents define `private`, and
//! while a definition cannot be had, it is `unknown`.

use std::time::Duration;

use metrics::{counter, histogram};

use crate::name::LeaseType;
use crate::revocation::RevocationReason;

/// Acquisitions by `resource` and `outcome` (`success`, `busy`, `noop`, `unavailable`).
pub const ACQUIRE: &str = "vance.lease.acquire";
/// Seconds from the call of acquire to its answer, by `resource`.
pub const ACQUIRE_WAIT: &str = "vance.lease.acquire.wait.seconds";
/// Checks by `resource` and `outcome` (`ok`, `lost`, `unavailable`).
pub const CHECK: &str = "vance.lease.check";
/// Checks that came later than half the time to live after the one before, by `resource`: the next may be too late.
pub const CHECK_LATE: &str = "vance.lease.check.late";
/// Releases by `resource` and `outcome` (`ok`, `already-released`, `error`).
pub const RELEASE: &str = "vance.lease.release";
/// Seconds from a release to the return of its slots, by `resource`.
pub const RELEASE_TO_FREE: &str = "vance.lease.release.to.free.seconds";
/// Seconds that leases were held, by `resource`.
pub const HOLD: &str = "vance.lease.hold.seconds";
/// Leases taken from their holders, by `reason` (`idle`, `pod`, `revoke`).
pub const REAP: &str = "vance.lease.reap";
/// Seconds from a revocation to the end of its clean-up, by `type`. For exclusive types that is when the slot comes back.
pub const CLEANUP: &str = "vance.lease.cleanup.seconds";
/// Leases over which a sweep panicked, and went on with the others.
pub const REAP_PANICS: &str = "vance.lease.reap.panics";
/// Orphan tokens taken out of counters, by `outcome` (`corrected`).
pub const RECONCILE: &str = "vance.lease.reconcile";

/// The label of all inline definitions.
pub(crate) const INLINE: &str = "mcp-inline";
/// The label of all definitions that neither bundled nor system documents know.
pub(crate) const PRIVATE: &str = "private";
/// The label where the definition cannot be had.
pub(crate) const UNKNOWN: &str = "unknown";

pub(crate) fn acquired(resource: String, outcome: &'static str, wait: Duration) {
    counter!(ACQUIRE, "resource" => resource.clone(), "outcome" => outcome).increment(1);
    if outcome != "noop" {
        histogram!(ACQUIRE_WAIT, "resource" => resource).record(wait.as_secs_f64());
    }
}

pub(crate) fn checked(resource: &str, outcome: &'static str) {
    counter!(CHECK, "resource" => resource.to_owned(), "outcome" => outcome).increment(1);
}

pub(crate) fn check_late(resource: &str) {
    counter!(CHECK_LATE, "resource" => resource.to_owned()).increment(1);
}

pub(crate) fn released(resource: &str, outcome: &'static str) {
    counter!(RELEASE, "resource" => resource.to_owned(), "outcome" => outcome).increment(1);
}

pub(crate) fn held_for(resource: &str, held: Duration) {
    histogram!(HOLD, "resource" => resource.to_owned()).record(held.as_secs_f64());
}

pub(crate) fn slots_free(resource: &str, since_release: Duration) {
    histogram!(RELEASE_TO_FREE, "resource" => resource.to_owned())
        .record(since_release.as_secs_f64());
}

pub(crate) fn reaped(reason: RevocationReason) {
    counter!(REAP, "reason" => reason.as_str()).increment(1);
}

pub(crate) fn reap_panicked() {
    counter!(REAP_PANICS).increment(1);
}

pub(crate) fn cleaned_up(lease_type: &LeaseType, since_revocation: Duration) {
    histogram!(CLEANUP, "type" => lease_type.to_string()).record(since_revocation.as_secs_f64());
}

pub(crate) fn corrected(orphans: usize) {
    counter!(RECONCILE, "outcome" => "corrected").increment(orphans as u64);
}
