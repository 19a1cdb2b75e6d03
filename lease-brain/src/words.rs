//! What is going on with a revoked lease, and what a revocation would do, in words.

use lease_shared::{CleanupPhase, CleanupView, HolderState, HolderView, SlotReturn};

use crate::with_pod::WithPod;

/// The state, with the truth about the clean-up.
pub fn state(holder: &HolderView) -> String {
    match &holder.cleanup {
        Some(cleanup) if holder.state == HolderState::Revoking => {
            format!("{} ({})", holder.state.as_str(), how_far(cleanup.phase))
        }
        _ => holder.state.as_str().to_owned(),
    }
}

/// How far the clean-up behind a revoked lease is.
pub fn how_far(phase: CleanupPhase) -> &'static str {
    match phase {
        CleanupPhase::HolderEnding => "waits for its holder's end",
        CleanupPhase::Waiting => "clean-up waiting",
        CleanupPhase::Running => "clean-up running",
        CleanupPhase::Failed => "clean-up failed",
    }
}

/// What a clean-up is at.
pub fn phase(cleanup: &CleanupView) -> String {
    match (cleanup.phase, &cleanup.claimed_by) {
        (CleanupPhase::Running, Some(pod)) => format!("running on pod {pod}"),
        (phase, _) => phase.as_str().to_owned(),
    }
}

/// When it is tried next; nothing while it runs.
pub fn next_try(cleanup: &CleanupView) -> String {
    match (cleanup.phase, cleanup.next_try_in_seconds) {
        (CleanupPhase::Running, _) => "-".to_owned(),
        _ if cleanup.nobody_begins => "when a pod with its handler comes".to_owned(),
        (_, 0) => "due".to_owned(),
        (_, left) => format!("in {}", seconds(left)),
    }
}

/// Seconds as people say them, for example `2m 5s`.
pub fn seconds(seconds: i64) -> String {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string()
}

/// Does this lease have no handler, but a command that ends when it hears of its loss?
fn is_command(holder: &HolderView) -> bool {
    holder.lease_type == "command"
}

/// What a revocation does, or would do, to end what runs under the lease: the dispatch matrix.
pub fn dispatch(lease: &WithPod) -> String {
    let holder = &lease.holder;
    let exclusive = holder.slot_return == SlotReturn::AfterCleanup;
    let clean_up = match (&holder.pod, lease.pod_alive, holder.pod_bound) {
        (None, ..) if is_command(holder) => {
            "no handler: its command ends at its next check, or its time runs out"
        }
        (None, ..) if exclusive => {
            "its handler runs in a brain, when its holder has ended or its time has run out"
        }
        (None, ..) => "its handler runs in a brain",
        (Some(_), Some(true), true) => "its pod is alive: its handler runs there and nowhere else",
        (Some(_), Some(true), false) => {
            "its pod is alive: its handler runs there, or in another brain if that pod does not do it"
        }
        (Some(_), _, true) => "nothing to clean up: its resource died with its pod",
        (Some(_), _, false) => "its pod is dead: its handler runs in a brain",
    };
    let slot = match exclusive {
        true => "the slot comes back after that",
        false => "the slot comes back at once",
    };
    format!("{clean_up}; {slot}")
}

/// What may go on after the slot was given back although nothing was cleaned up.
pub fn may_still_run(lease: &WithPod) -> String {
    let holder = &lease.holder;
    match (&holder.pod, lease.pod_alive, holder.pod_bound) {
        (None, ..) if is_command(holder) => {
            "its command may still run until its next check".to_owned()
        }
        (Some(pod), Some(true), _) => {
            format!("what runs under it in pod {pod}, which is alive, may still be in use")
        }
        (Some(_), _, true) => "nothing: its resource died with its pod".to_owned(),
        _ => format!("its resource {} may still be in use", holder.resource),
    }
}

/// What was not done when a slot was given back by force, and when it is.
pub fn skipped(holder: &HolderView) -> String {
    match is_command(holder) {
        true => "it has no handler".to_owned(),
        false => format!(
            "its handler (type {}) was not run and runs when a brain is back",
            holder.lease_type
        ),
    }
}

/// Who holds it.
pub fn holder(holder: &HolderView) -> String {
    format!("{}/{}/{}", holder.tenant, holder.project, holder.user)
}
