//! What can be done about a lease, and where what became of it is said.

use lease_shared::{CleanupPhase, HolderView};
use maud::{Markup, html};

use super::links::Here;

/// The way to a lease's end, which is asked about first.
pub(super) fn revoke(here: &Here, holder: &HolderView) -> Markup {
    let place = format!("{}/revoke", here.holder(&holder.token));
    let called = format!("Revoke {}, held by {}", holder.resource, holder.user);
    html! {
        a.button href=(place) hx-get=(place) hx-target="#dialog" aria-label=(called) data-f="revoke" { "Revoke…" }
    }
}

/// Asks for a try at once of what does not run, and says in the row whether there is one.
pub(super) fn retry(here: &Here, holder: &HolderView) -> Markup {
    let place = format!("{}/retry", here.holder(&holder.token));
    let phase = holder.cleanup.as_ref().map(|cleanup| cleanup.phase);
    let target = format!("#result-{}", holder.token);
    let called = format!("Try again now: the clean-up of {}", holder.resource);
    html! {
        @if phase != Some(CleanupPhase::Running) {
            form method="post" action=(place) hx-post=(place) hx-target=(target) {
                button type="submit" aria-label=(called) data-f="retry" { "Try again now" }
            }
        }
    }
}

/// Where what became of an action stands, beside what it was about.
pub(super) fn result(holder: &HolderView) -> Markup {
    html! { output.result id={ "result-" (holder.token) } {} }
}
