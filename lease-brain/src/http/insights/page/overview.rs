//! What stands out among a tenant's leases.

use lease_shared::TenantCounter;
use maud::{Markup, html};

use super::links::Here;
use super::live::{List, View};
use super::person::{holder_of, name};
use super::standing::{pod, state};
use super::time::{ago, number};
use super::{bar, holders, revocations};
use crate::insights::answer::Overview;
use crate::with_pod::WithPod;

pub(super) fn view(here: &Here, overview: &Overview) -> View {
    let totals = &overview.totals;
    let tiles = [
        (
            "held",
            totals.held,
            here.holders(&[("state", "HELD")]),
            "good",
        ),
        (
            "being acquired",
            totals.pending,
            here.holders(&[("state", "PENDING")]),
            "calm",
        ),
        (
            "being revoked",
            totals.revoking,
            here.at("/revocations"),
            "warn",
        ),
        ("failed", totals.failed, here.at("/revocations"), "bad"),
    ];
    let tile = |(called, count, place, class): (&str, u64, String, &str)| {
        let class = if count > 0 { class } else { "none" };
        let item = html! {
            li.tile.(class) data-key=(called) data-mark=(count) {
                a href=(place) data-f="tile" { strong { (number(count)) } " " span { (called) } }
            }
        };
        (called.to_owned(), item)
    };
    let none = totals.held + totals.pending + totals.revoking + totals.failed == 0;
    let empty = html! { @if none { (holders::none_at_all()) } };
    let no_counters = html! { @if overview.counters == 0 { p.quiet { "Nothing is counted." } } };
    let no_oldest = html! { @if totals.held == 0 { p.quiet { "Nothing is held." } } };
    let no_revoking = html! { @if totals.revoking + totals.failed == 0 { p.quiet { "Nothing is being revoked." } } };
    View {
        now: overview.now.clone(),
        swept_seconds: overview.last_sweep_seconds,
        parts: vec![
            ("empty", empty),
            ("unreadable", super::list::unreadable(&overview.unreadable)),
            ("no-fullest", no_counters),
            ("no-oldest", no_oldest),
            ("no-revoking", no_revoking),
        ],
        lists: vec![
            List {
                name: "tiles",
                items: tiles.map(tile).into(),
            },
            list("fullest", &overview.fullest, |it| fullest(here, it)),
            list("oldest", &overview.oldest, |it| oldest(here, it)),
            list("revoking", &overview.revoking, |it| revoking(here, it)),
        ],
    }
}

pub(super) fn shown(here: &Here, view: &View) -> Markup {
    let oldest_first = here.holders(&[("state", "HELD"), ("sort", "oldest")]);
    html! {
        (view.block("empty"))
        (view.block("unreadable"))
        ul.tiles data-list="tiles" { (view.items("tiles")) }
        div.halves {
            section aria-labelledby="fullest" {
                h2 #fullest { a href=(here.at("/counters")) { "Fullest counters" } }
                (view.block("no-fullest"))
                ul.cards data-list="fullest" { (view.items("fullest")) }
                p.quiet { "A lease may also wait for a ceiling shared by all tenants; it is not shown here." }
            }
            div {
                section aria-labelledby="oldest" {
                    h2 #oldest { a href=(oldest_first) { "Held the longest" } }
                    (view.block("no-oldest"))
                    ul.cards data-list="oldest" { (view.items("oldest")) }
                }
                section aria-labelledby="revoking" {
                    h2 #revoking { a href=(here.at("/revocations")) { "Revocations to look at" } }
                    (view.block("no-revoking"))
                    ul.cards data-list="revoking" { (view.items("revoking")) }
                }
            }
        }
        p.quiet {
            "This brain last swept: "
            span #swept { @match view.swept_seconds {
                Some(seconds) => { (seconds) " s ago" }
                None => { "not yet" }
            } }
            ". A sweep ends the leases that nobody uses, and those of dead pods."
        }
    }
}

fn list<T>(name: &'static str, entries: &[T], item: impl Fn(&T) -> (String, Markup)) -> List {
    let items = entries.iter().map(item).collect();
    List { name, items }
}

fn fullest(here: &Here, counter: &TenantCounter) -> (String, Markup) {
    let mark = format!("{}/{}", counter.count, counter.cap);
    let item = html! {
        li data-key=(counter.key) data-mark=(mark) {
            div.line { strong { (name(&counter.resource)) } " " span.quiet { (bar::scope(counter)) } }
            div { (bar::bar(counter)) }
            div { (bar::words(here, counter)) }
        }
    };
    (counter.key.clone(), item)
}

fn oldest(here: &Here, lease: &WithPod) -> (String, Markup) {
    let holder = &lease.holder;
    let since = holder.acquired_at.as_ref().unwrap_or(&holder.created_at);
    let item = html! {
        li data-key=(holder.token) data-mark=(holder.state.as_str()) {
            div.line {
                a href=(here.holder(&holder.token)) data-f="open" { (name(&holder.resource)) } " " (state(holder))
            }
            div { (holder_of(here, holder)) " · " (pod(lease)) }
            div.quiet { "held since " (ago(since)) }
        }
    };
    (holder.token.to_string(), item)
}

fn revoking(here: &Here, lease: &WithPod) -> (String, Markup) {
    let holder = &lease.holder;
    let item = html! {
        li data-key=(holder.token) data-mark=(holder.state.as_str()) {
            div.line {
                a href=(here.holder(&holder.token)) data-f="open" { (name(&holder.resource)) } " " (state(holder))
            }
            @if let Some(cleanup) = &holder.cleanup {
                div.quiet { (revocations::attempts(cleanup)) ", " (revocations::next(cleanup)) }
                @if let Some(error) = &cleanup.last_error { div.error { (name(error)) } }
            }
        }
    };
    (holder.token.to_string(), item)
}
