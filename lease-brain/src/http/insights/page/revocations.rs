//! What is being ended, and what keeps it from its end.

use lease_shared::{CleanupPhase, CleanupView, HolderView};
use maud::{Markup, html};

use super::buttons;
use super::links::Here;
use super::list::{self, Kind, field, heads, unseen_head};
use super::live::View;
use super::person::{holder_of, name};
use super::standing::{standing, state};
use super::time::{ago, left, several};
use crate::insights::answer::Listing;
use crate::insights::params::RevocationParams;
use crate::with_pod::WithPod;

const HEADS: [&str; 8] = [
    "Resource",
    "Clean-up",
    "Project / user",
    "Tries",
    "Next try",
    "Last error",
    "Since",
    "Why",
];

const LIST: Kind = Kind {
    place: "/revocations",
    one: "revocation",
    many: "revocations",
    none: none_at_all,
};

pub(super) fn view(here: &Here, params: &RevocationParams, listing: &Listing<WithPod>) -> View {
    let row = |lease: &WithPod| (lease.holder.token.to_string(), row(here, lease));
    list::view(here, &LIST, params, listing, row)
}

pub(super) fn page(here: &Here, params: &RevocationParams, shown: &Markup) -> Markup {
    let fields = html! {
        div.fields {
            (field("q", "Search", &params.q, "name, reference, token"))
            (field("resource", "Resource", &params.resource, "exactly"))
            (field("type", "Type", &params.lease_type, "exactly"))
        }
    };
    list::page(here, &LIST, &fields, shown)
}

pub(super) fn shown(view: &View) -> Markup {
    let heads = html! { (heads(&HEADS)) (unseen_head("Action")) };
    html! {
        div.above {
            p.shown { (view.span("shown")) ", failed ones first, then by their next try" }
        }
        (list::table(view, "Revocations", &heads))
    }
}

fn row(here: &Here, lease: &WithPod) -> Markup {
    let holder = &lease.holder;
    let (words, _) = standing(holder);
    let mark = format!(
        "{words} {}",
        holder.cleanup.as_ref().map_or(0, |it| it.attempts)
    );
    html! {
        tr role="row" data-key=(holder.token) data-mark=(mark) {
            th.what scope="row" role="rowheader" data-label="Resource" {
                a href=(here.holder(&holder.token)) data-f="open" { (name(&holder.resource)) }
            }
            td.standing role="cell" data-label="Clean-up" { (state(holder)) }
            td.named role="cell" data-label="Project / user" { (holder_of(here, holder)) }
            @if let Some(cleanup) = &holder.cleanup {
                td.number role="cell" data-label="Tries" { (cleanup.attempts) }
                td role="cell" data-label="Next try" { (next_try(cleanup)) }
                td.named role="cell" data-label="Last error" { @if let Some(error) = &cleanup.last_error { span.error { (name(error)) } } @else { span.quiet { "none" } } }
                td role="cell" data-label="Since" { @if let Some(at) = &holder.revoked_at { (ago(at)) } }
                td role="cell" data-label="Why" { (why(holder, cleanup)) }
            } @else {
                td role="cell" colspan="5" {}
            }
            td.action role="cell" { (buttons::retry(here, holder)) (buttons::result(holder)) }
        }
    }
}

/// The clean-up of one lease.
pub(super) fn cleanup(holder: &HolderView, cleanup: &CleanupView) -> Markup {
    html! {
        dl {
            dt { "Clean-up" } dd { (state(holder)) }
            dt { "Tries" } dd { (cleanup.attempts) }
            dt { "Next try" } dd { (next_try(cleanup)) }
            @if let Some(pod) = &cleanup.claimed_by { dt { "Runs on" } dd { "pod " (name(pod)) } }
            @if let Some(error) = &cleanup.last_error { dt { "Last error" } dd.error { (name(error)) } }
            dt { "Why" } dd { (why(holder, cleanup)) }
            @if cleanup.forced { dt { "Slots" } dd { "given back at once by force, whatever still ran" } }
        }
    }
}

/// `after 3 tries`.
pub(super) fn attempts(cleanup: &CleanupView) -> String {
    match u64::try_from(cleanup.attempts) {
        Ok(0) | Err(_) => "not tried yet".to_owned(),
        Ok(tries) => format!("after {}", several(tries, "try", "tries")),
    }
}

/// `next try in 47 s`.
pub(super) fn next(cleanup: &CleanupView) -> Markup {
    html! { @if cleanup.phase != CleanupPhase::Running { "next try " } (next_try(cleanup)) }
}

fn next_try(cleanup: &CleanupView) -> Markup {
    html! {
        @if cleanup.phase == CleanupPhase::Running { span.quiet { "runs now" } }
        @else { (left(&cleanup.next_try_at)) }
    }
}

fn why(holder: &HolderView, cleanup: &CleanupView) -> Markup {
    html! {
        @if let Some(reason) = holder.revocation_reason { (reason) } @else { "not known" }
        @if let Some(by) = &cleanup.by { ", by " (name(by)) }
        @if let Some(note) = &cleanup.note { ": “" (name(note)) "”" }
    }
}

fn none_at_all() -> Markup {
    html! {
        section.state data-state="no-revocations" {
            p { strong { "Nothing is being revoked." } " What was, is cleaned up." }
        }
    }
}
