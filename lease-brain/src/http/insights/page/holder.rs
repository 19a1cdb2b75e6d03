//! Everything about one lease.

use lease_shared::HolderState;
use maud::{Markup, html};

use super::buttons;
use super::links::Here;
use super::live::View;
use super::person::{holder_of, name};
use super::revocations;
use super::standing::{pod, standing, state};
use super::time::{ago, at, left};
use crate::insights::answer::HolderDetail;
use crate::words;

pub(super) fn view(here: &Here, detail: &HolderDetail) -> View {
    View {
        now: Some(detail.now.clone()),
        parts: vec![("lease", lease(here, detail))],
        ..View::default()
    }
}

pub(super) fn shown(here: &Here, view: &View) -> Markup {
    html! {
        p #gone.state data-state="gone" role="alert" hidden {
            "This lease is gone: it was released, or revoked and cleaned up. What you see is how it was."
        }
        (view.block("lease"))
        p { a href=(here.at("/holders")) { "← all holders" } }
    }
}

fn lease(here: &Here, detail: &HolderDetail) -> Markup {
    let holder = &detail.lease.holder;
    let held = holder.state == HolderState::Held;
    let revoking = holder.state == HolderState::Revoking;
    let (words, _) = standing(holder);
    html! {
        article data-key=(holder.token) data-mark=(words) data-held=[held.then_some("")] {
            div.above {
                h2 { (name(&holder.resource)) " " (state(holder)) }
                div.action {
                    @if held { (buttons::revoke(here, holder)) }
                    @if revoking { (buttons::retry(here, holder)) }
                    (buttons::result(holder))
                }
            }
            div.halves {
                section aria-label="Holder" {
                    dl {
                        dt { "Project / user" } dd { (holder_of(here, holder)) }
                        dt { "Reference" } dd { (name(&holder.holder_ref)) }
                        dt { "Lease" } dd { (name(&holder.lease)) ", type " (name(&holder.lease_type)) }
                        dt { "Pod" } dd { (pod(&detail.lease)) @if holder.pod_bound { ", its resource dies with it" } }
                        dt { "Last used" } dd { (ago(&holder.last_seen_at)) }
                        @if !revoking { dt { "Expires" } dd { (left(&holder.expires_at)) ", " (words::seconds(holder.ttl_seconds)) " after its last use" } }
                        dt { "Token" } dd { code { (holder.token) } }
                        dt { "Slots" } dd { ul { @for level in &holder.levels { li { code { (name(level)) } } } } }
                    }
                }
                section aria-labelledby="moments" {
                    h3 #moments { "What happened, and what will" }
                    ol.moments { @for moment in &detail.moments { li { (at(&moment.at)) " " span { (name(&moment.what)) } } } }
                }
                section aria-labelledby="ending" {
                    h3 #ending { @if revoking { "What its revocation does" } @else { "What a revocation would do" } }
                    p { (name(&detail.on_revocation)) "." }
                    p { strong { "Not undone by itself: " } (name(&detail.may_still_run)) "." }
                    @if let Some(cleanup) = &holder.cleanup { (revocations::cleanup(holder, cleanup)) }
                }
                section aria-labelledby="payload" {
                    h3 #payload { "What its consumer left for the clean-up" }
                    @if detail.payload.is_empty() { p.quiet { "Nothing." } }
                    @else {
                        dl {
                            @for field in &detail.payload {
                                dt { (name(&field.name)) }
                                dd { @match &field.value {
                                    Some(value) => { (name(value)) }
                                    None => { span.quiet { "hidden: looks like a secret" } }
                                } }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn hostile_names_are_text() {
    use super::holders::tests::{HOSTILE, hostile};
    use crate::insights::answer::Moment;

    let text = HOSTILE.to_owned();
    let detail = HolderDetail {
        now: "2026-11-30T19:48:25Z".to_owned(),
        lease: hostile(),
        on_revocation: text.clone(),
        may_still_run: text.clone(),
        payload: Vec::new(),
        moments: vec![Moment {
            at: "2026-11-30T19:48:25Z".to_owned(),
            what: text.clone(),
        }],
    };
    let here = Here::new(text.clone(), text);
    let html = lease(&here, &detail).into_string();
    assert!(!html.contains("<script"), "{html}");
    assert!(!html.contains("'>"), "{html}");
}
