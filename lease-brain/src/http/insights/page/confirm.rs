//! What somebody is told before a lease is ended, and what has become of it.

use lease_shared::{HolderState, LeaseToken};
use maud::{Markup, html};

use super::links::Here;
use super::person::{holder_of, name};
use super::standing::{pod, state};
use super::time::{ago, number, several};
use crate::insights::answer::HolderDetail;
use crate::insights::revoke::{RevokeOutcome, RevokeResult};
use crate::with_pod::WithPod;
use crate::words;

/// The longest reason, as the service has it.
const REASON: u16 = 500;

/// The questions and the form for one lease.
pub(super) fn one(here: &Here, detail: &HolderDetail, in_dialog: bool) -> Markup {
    let holder = &detail.lease.holder;
    let since = holder.acquired_at.as_ref().unwrap_or(&holder.created_at);
    let own = holder.user == here.subject;
    let seen = [(&holder.token, holder.state)];
    let form = Form {
        place: format!("{}/revoke", here.holder(&holder.token)),
        seen: &seen,
        reason_needed: !own,
        in_dialog,
        called: "Revoke",
    };
    html! {
        section.confirm #confirm data-tokens=(holder.token) {
            h2 #dialog-title { "Revoke " (name(&holder.resource)) "?" }
            (changed_meanwhile())
            dl {
                dt { "Holder" } dd { (holder_of(here, holder)) }
                dt { "Reference" } dd { (name(&holder.holder_ref)) }
                dt { "Held since" } dd { (ago(since)) }
                dt { "Runs in" } dd { (pod(&detail.lease)) }
                dt { "State" } dd { (state(holder)) }
                dt { "What will happen" } dd { (detail.on_revocation) "." }
                dt { "Who is affected" } dd {
                    @if own { "You: " } @else { "User " (name(&holder.user)) " in project " (name(&holder.project)) ": " }
                    "the next check of the lease says that it is lost."
                }
                dt { "What is not undone" } dd { (detail.may_still_run) "." }
            }
            @if holder.state == HolderState::Held {
                (form.shown(here))
            } @else {
                p.word.warn { "Holder changed, or never held: only a lease that is held can be revoked." }
                p { a.button href=(here.at("/holders")) data-close { "Back" } }
            }
        }
    }
}

/// The same for several: those that are no more what was seen are named, and left out.
pub(super) fn several_at_once(
    here: &Here,
    chosen: usize,
    found: &[WithPod],
    in_dialog: bool,
) -> Markup {
    let is_held = |lease: &&WithPod| lease.holder.state == HolderState::Held;
    let held: Vec<&WithPod> = found.iter().filter(is_held).collect();
    let changed = chosen.saturating_sub(held.len());
    let seen: Vec<_> = held
        .iter()
        .map(|lease| (&lease.holder.token, lease.holder.state))
        .collect();
    let tokens: Vec<&str> = seen.iter().map(|(token, _)| token.as_str()).collect();
    let leases = several(held.len() as u64, "lease", "leases");
    let form = Form {
        place: here.at("/revoke"),
        seen: &seen,
        reason_needed: true,
        in_dialog,
        called: &format!("Revoke {leases}"),
    };
    html! {
        section.confirm #confirm data-tokens=(tokens.join(" ")) {
            h2 #dialog-title { "Revoke " (leases) "?" }
            (changed_meanwhile())
            @if changed > 0 {
                p.word.warn { (number(changed as u64)) " of those you chose changed meanwhile, and will be left alone." }
            }
            ul.preview {
                @for lease in &held {
                    @let holder = &lease.holder;
                    li {
                        strong { (name(&holder.resource)) } " · " (holder_of(here, holder)) " · held since "
                        (ago(holder.acquired_at.as_ref().unwrap_or(&holder.created_at))) " · " (pod(lease))
                        div.quiet { (words::dispatch(lease)) ". Not undone: " (words::may_still_run(lease)) "." }
                    }
                }
            }
            @if seen.is_empty() { p { a.button href=(here.at("/holders")) data-close { "Back" } } }
            @else { (form.shown(here)) }
        }
    }
}

/// Live updates show this when a lease is not any more what the questions are about.
fn changed_meanwhile() -> Markup {
    html! {
        p.word.warn #confirm-changed role="alert" hidden {
            "Holder changed: it is not held any more as you saw it. Nothing is done about what has changed."
        }
    }
}

/// What is sent if somebody means it.
struct Form<'a> {
    /// To where.
    place: String,
    /// The tokens and the states that were seen, so that nothing else is ended.
    seen: &'a [(&'a LeaseToken, HolderState)],
    reason_needed: bool,
    /// Do the leases stand on the page, so that each result can be put beside its lease?
    in_dialog: bool,
    called: &'a str,
}

impl Form<'_> {
    fn shown(&self, here: &Here) -> Markup {
        let posted = self.in_dialog.then_some(self.place.as_str());
        html! {
            form #revoke-form method="post" action=(self.place) hx-post=[posted] hx-target="#dialog-error"
                hx-disabled-elt="find button.danger" {
                @for (token, state) in self.seen {
                    input type="hidden" name="seen" value={ (token) "." (state.as_str()) };
                }
                label for="reason" {
                    @if self.reason_needed { "Reason, which the user can read" }
                    @else { "Reason (not needed: the lease is your own)" }
                }
                input #reason name="reason" maxlength=(REASON) required[self.reason_needed] autocomplete="off";
                div #dialog-error role="alert" {}
                div.buttons {
                    button.danger type="submit" { (self.called) }
                    a.button href=(here.at("/holders")) data-close { "Cancel" }
                }
            }
        }
    }
}

/// What became of them, for a page that shows the leases: a summary, and for each its own result, which htmx puts in its row.
pub(super) fn results(results: &[RevokeResult]) -> Markup {
    html! {
        p { (summary(results)) }
        @for result in results {
            output id={ "result-" (result.token) } hx-swap-oob="innerHTML" { (outcome(result)) }
        }
    }
}

/// The same as a page.
pub(super) fn results_page(here: &Here, results: &[RevokeResult]) -> Markup {
    html! {
        p { strong { (summary(results)) } }
        ul.preview {
            @for result in results {
                li { a href=(here.holder(&result.token)) { code { (result.token) } } " " (outcome(result)) }
            }
        }
        p { a href=(here.at("/holders")) { "← all holders" } }
    }
}

fn outcome(result: &RevokeResult) -> Markup {
    let class = match result.outcome {
        RevokeOutcome::Revoked => "good",
        RevokeOutcome::HolderChanged | RevokeOutcome::NoSuchLease => "warn",
        RevokeOutcome::ReasonNeeded | RevokeOutcome::Unreadable | RevokeOutcome::Unknown => "bad",
    };
    html! { span.word.(class) { (result.words) } }
}

/// `7 revoked, 1 holder changed`.
fn summary(results: &[RevokeResult]) -> String {
    let outcomes = [
        (RevokeOutcome::Revoked, "revoked"),
        // What is gone has changed as well, for whoever has just seen it.
        (RevokeOutcome::HolderChanged, "holder changed"),
        (RevokeOutcome::ReasonNeeded, "not done for want of a reason"),
        (RevokeOutcome::Unreadable, "not to be read"),
        (RevokeOutcome::Unknown, "not known to be done"),
    ];
    let said = outcomes.iter().filter_map(|(outcome, words)| {
        let is_that = |it: &&RevokeResult| match it.outcome {
            RevokeOutcome::NoSuchLease => *outcome == RevokeOutcome::HolderChanged,
            known => known == *outcome,
        };
        let count = results.iter().filter(is_that).count();
        (count > 0).then(|| format!("{count} {words}"))
    });
    said.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(digit: char, outcome: RevokeOutcome) -> RevokeResult {
        RevokeResult {
            token: LeaseToken::new(digit.to_string().repeat(32)).unwrap(),
            outcome,
            slot: None,
            words: "done & said".to_owned(),
        }
    }

    #[test]
    fn each_lease_has_its_own_result() {
        let all = [
            result('1', RevokeOutcome::Revoked),
            result('2', RevokeOutcome::HolderChanged),
            result('3', RevokeOutcome::Revoked),
            result('4', RevokeOutcome::NoSuchLease),
        ];
        let html = results(&all).into_string();
        assert!(
            html.starts_with("<p>2 revoked, 2 holder changed</p>"),
            "{html}"
        );
        let second = format!("id=\"result-{}\" hx-swap-oob=\"innerHTML\"", "2".repeat(32));
        assert!(html.contains(&second), "{html}");
        assert!(html.contains("done &amp; said"), "{html}");
    }
}
