//! How full everything is.

use lease_shared::TenantCounter;
use maud::{Markup, html};

use super::bar;
use super::links::Here;
use super::list::{self, Kind, field, heads, select};
use super::live::View;
use super::person::name;
use super::time::ago;
use crate::insights::answer::Listing;
use crate::insights::params::CounterParams;

const LEVELS: [(&str, &str); 4] = [
    ("", "any"),
    ("tenant", "tenant"),
    ("project", "project"),
    ("user", "user"),
];

const HEADS: [&str; 7] = [
    "Resource",
    "Of",
    "In use",
    "Last cap",
    "Booked",
    "Awaiting clean-up",
    "Changed",
];

const LIST: Kind = Kind {
    place: "/counters",
    one: "counter",
    many: "counters",
    none: none_at_all,
};

pub(super) fn view(here: &Here, params: &CounterParams, listing: &Listing<TenantCounter>) -> View {
    let row = |counter: &TenantCounter| (counter.key.clone(), row(here, counter));
    list::view(here, &LIST, params, listing, row)
}

pub(super) fn page(here: &Here, params: &CounterParams, shown: &Markup) -> Markup {
    let fields = html! {
        div.fields {
            (field("q", "Search", &params.q, "resource, lease, project, user"))
            (select("level", "Level", &params.level, &LEVELS))
            (field("resource", "Resource", &params.resource, "exactly"))
            (field("project", "Project", &params.project, "exactly"))
            (field("user", "User", &params.user, "exactly"))
        }
    };
    list::page(here, &LIST, &fields, shown)
}

pub(super) fn shown(view: &View) -> Markup {
    html! {
        div.above {
            p.shown { (view.span("shown")) ", those with the least room first" }
        }
        (list::table(view, "Counters", &heads(&HEADS)))
        p.quiet { "A lease may also wait for a ceiling shared by all tenants; it is not shown here. One counter may be reached under several definitions with different caps: the last cap is what the last booking saw." }
    }
}

fn row(here: &Here, counter: &TenantCounter) -> Markup {
    let mark = format!("{}/{} {}", counter.count, counter.cap, counter.drift);
    html! {
        tr role="row" data-key=(counter.key) data-mark=(mark) {
            th.what scope="row" role="rowheader" data-label="Resource" {
                a href=(here.users_of(counter)) data-f="open" { (name(&counter.resource)) }
            }
            td.named role="cell" data-label="Of" { (bar::scope(counter)) }
            td.filling role="cell" data-label="In use" { (bar::bar(counter)) div { (bar::words(here, counter)) } }
            td.named role="cell" data-label="Last cap" { (counter.cap) " " span.quiet { "from lease " (name(&counter.lease)) } }
            td.number role="cell" data-label="Booked" { (counter.booked) }
            td.number role="cell" data-label="In clean-up" {
                @if counter.awaiting_cleanup > 0 { span.word.warn { (counter.awaiting_cleanup) } } @else { "0" }
            }
            td role="cell" data-label="Changed" { (ago(&counter.updated_at)) }
        }
    }
}

fn none_at_all() -> Markup {
    html! {
        section.state data-state="no-counters" {
            p { strong { "Nothing is counted yet." } " A counter comes to be with the first lease of a level that has a cap." }
        }
    }
}
