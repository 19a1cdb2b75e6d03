//! Who holds what: the table, and what narrows it.

use lease_shared::HolderState;
use maud::{Markup, html};

use super::buttons;
use super::links::Here;
use super::list::{self, Kind, field, heads, select, unseen_head};
use super::live::View;
use super::person::{holder_of, name};
use super::standing::{pod, standing, state};
use super::time::{ago, left};
use crate::insights::answer::Listing;
use crate::insights::params::{HolderParams, Params as _, given};
use crate::with_pod::WithPod;

const STATES: [(&str, &str); 4] = [
    ("", "any"),
    ("HELD", "held"),
    ("PENDING", "being acquired"),
    ("REVOKING", "being revoked"),
];
const ORDERS: [(&str, &str); 6] = [
    ("", "held longest"),
    ("newest", "newest"),
    ("expiry", "expires soonest"),
    ("resource", "resource"),
    ("project", "project"),
    ("user", "user"),
];

const HEADS: [&str; 8] = [
    "Resource",
    "State",
    "Project / user",
    "Reference",
    "Pod",
    "Held since",
    "Last used",
    "Expires",
];

const LIST: Kind = Kind {
    place: "/holders",
    one: "lease",
    many: "leases",
    none: none_at_all,
};

pub(super) fn view(here: &Here, params: &HolderParams, listing: &Listing<WithPod>) -> View {
    let row = |lease: &WithPod| (lease.holder.token.to_string(), row(here, lease));
    list::view(here, &LIST, params, listing, row)
}

/// The filters, and below them what they let through.
pub(super) fn page(here: &Here, params: &HolderParams, shown: &Markup) -> Markup {
    let more = [
        ("resource", "Resource", &params.resource),
        ("type", "Type", &params.lease_type),
        ("project", "Project", &params.project),
        ("user", "User", &params.user),
        ("pod", "Pod", &params.pod),
    ];
    let narrowed = more.iter().any(|(_, _, value)| given(value).is_some());
    let fields = html! {
        (field("q", "Search", &params.q, "name, reference, token"))
        (select("state", "State", &params.state, &STATES))
        (field("olderThan", "Older than", &params.older_than, "90s, 2h 30m"))
        (select("sort", "Sort by", &params.sort, &ORDERS))
    };
    let more = html! {
        details open[narrowed] {
            summary { "More filters" }
            div.fields { @for (name, label, value) in more { (field(name, label, value, "exactly")) } }
        }
    };
    let hidden = html! {
        @if let Some(value) = given(&params.per_page) { input type="hidden" name="perPage" value=(value); }
    };
    let fields = html! { div.fields { (fields) } (more) (hidden) };
    list::page(here, &LIST, &fields, shown)
}

pub(super) fn shown(here: &Here, params: &HolderParams, view: &View) -> Markup {
    let heads = html! { (unseen_head("Select")) (heads(&HEADS)) (unseen_head("Action")) };
    html! {
        div.above {
            p.shown { (view.span("shown")) @if params.is_filtered() { " · " a href=(here.at("/holders")) { "clear filters" } } }
            form #bulk method="get" action=(here.at("/revoke")) hx-get=(here.at("/revoke")) hx-target="#dialog" {
                button #bulk-button type="submit" { "Revoke selected…" }
            }
        }
        (list::table(view, "Holders", &heads))
    }
}

fn row(here: &Here, lease: &WithPod) -> Markup {
    let holder = &lease.holder;
    let held = holder.state == HolderState::Held;
    let (words, _) = standing(holder);
    let seen = format!("{}.{}", holder.token, holder.state.as_str());
    let whose = format!("Select {}, held by {}", holder.resource, holder.user);
    html! {
        tr role="row" data-key=(holder.token) data-mark=(words) data-held=[held.then_some("")] {
            td.pick role="cell" {
                @if held { input type="checkbox" form="bulk" name="seen" value=(seen) aria-label=(whose) data-f="pick"; }
            }
            th.what scope="row" role="rowheader" data-label="Resource" {
                a href=(here.holder(&holder.token)) data-f="open" { (name(&holder.resource)) }
                @if holder.lease != holder.resource { " " span.quiet { "lease " (name(&holder.lease)) } }
            }
            td.standing role="cell" data-label="State" { (state(holder)) }
            td.named role="cell" data-label="Project / user" { (holder_of(here, holder)) }
            td.named role="cell" data-label="Reference" { (name(&holder.holder_ref)) }
            td.pod role="cell" data-label="Pod" { (pod(lease)) }
            td role="cell" data-label="Held since" {
                @match &holder.acquired_at { Some(at) => { (ago(at)) } None => { span.quiet { "not yet" } } }
            }
            td role="cell" data-label="Last used" { (ago(&holder.last_seen_at)) }
            td role="cell" data-label="Expires" {
                @if holder.state == HolderState::Revoking { span.quiet { "revoked" } } @else { (left(&holder.expires_at)) }
            }
            td.action role="cell" {
                @if held { (buttons::revoke(here, holder)) }
                (buttons::result(holder))
            }
        }
    }
}

/// There is nothing, and how there could be something.
pub(super) fn none_at_all() -> Markup {
    html! {
        section.state data-state="no-leases" {
            p { strong { "Nobody holds a lease in this tenant." } }
            p { "One is acquired for as long as a command runs, for example by:" }
            pre { code { "lease run tex -- latexmk -pdf thesis.tex" } }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use lease_shared::{HolderView, LeaseToken, SlotReturn};

    use super::*;

    pub(in super::super) const HOSTILE: &str = "\"'><script>alert(1)</script>&";

    /// Whose every free name is hostile.
    pub(in super::super) fn hostile() -> WithPod {
        let text = HOSTILE.to_owned();
        let at = "2026-11-30T19:48:25Z".to_owned();
        WithPod {
            holder: HolderView {
                token: LeaseToken::new("00000000000000000000000000000001").unwrap(),
                lease: "bench".to_owned(),
                resource: text.clone(),
                lease_type: "bench".to_owned(),
                state: HolderState::Held,
                tenant: text.clone(),
                project: text.clone(),
                user: text.clone(),
                holder_ref: text.clone(),
                pod: Some(text.clone()),
                pod_bound: false,
                slot_return: SlotReturn::AtOnce,
                levels: vec![text.clone()],
                ttl_seconds: 60,
                created_at: at.clone(),
                acquired_at: Some(at.clone()),
                last_seen_at: at.clone(),
                age_seconds: 12,
                expires_at: at,
                expires_in_seconds: 48,
                beats: 1,
                payload_keys: vec![text.clone()],
                revocation_reason: None,
                revoked_at: None,
                cleanup: None,
            },
            pod_alive: Some(true),
            node_name: Some(text),
        }
    }

    #[test]
    fn hostile_names_are_text_in_rows_and_links() {
        let here = Here::new(HOSTILE.to_owned(), HOSTILE.to_owned());
        let html = row(&here, &hostile()).into_string();
        assert!(!html.contains("<script"), "{html}");
        assert!(!html.contains("'>"), "{html}");
        assert!(html.contains("&lt;script&gt;"), "{html}");
        let params = HolderParams {
            q: Some(HOSTILE.to_owned()),
            user: Some(HOSTILE.to_owned()),
            ..HolderParams::default()
        };
        let html = page(&here, &params, &html! {}).into_string();
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("<details open>"), "{html}");
    }
}
