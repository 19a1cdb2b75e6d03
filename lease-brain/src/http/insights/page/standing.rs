//! Where a lease stands, and the pod that holds it: our own words, each with its colour.

use lease_shared::{CleanupPhase, HolderState, HolderView};
use maud::{Markup, html};

use super::person::name;
use crate::with_pod::WithPod;
use crate::words;

/// Where a lease stands, in words, and as the class of their colour.
pub(super) fn standing(holder: &HolderView) -> (&'static str, &'static str) {
    let phase = holder.cleanup.as_ref().map(|cleanup| cleanup.phase);
    match (holder.state, phase) {
        (HolderState::Held, _) => ("held", "good"),
        (HolderState::Pending, _) => ("being acquired", "calm"),
        (HolderState::Revoking, Some(phase)) => (words::how_far(phase), colour(phase)),
        (HolderState::Revoking, None) => ("being revoked", "warn"),
    }
}

fn colour(phase: CleanupPhase) -> &'static str {
    match phase {
        CleanupPhase::Failed => "bad",
        CleanupPhase::HolderEnding | CleanupPhase::Waiting | CleanupPhase::Running => "warn",
    }
}

/// The same as a label.
pub(super) fn state(holder: &HolderView) -> Markup {
    let (words, class) = standing(holder);
    html! { span class={ "word " (class) } { (words) } }
}

/// The pod that holds it, in short, and whether it lives.
pub(super) fn pod(lease: &WithPod) -> Markup {
    let (Some(pod), Some(short)) = (&lease.holder.pod, lease.pod_name()) else {
        return html! { span.quiet { "no pod" } };
    };
    html! {
        span title=(pod) { (name(&short)) } " "
        @if lease.pod_alive == Some(true) { span.word.good { "alive" } }
        @else { span.word.bad { "dead" } }
    }
}
