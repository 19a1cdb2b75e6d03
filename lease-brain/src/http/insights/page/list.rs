//! What every list has: a form that narrows it, how much of it is shown, the way to its other pages, and why it is empty.

use maud::{Markup, html};

use super::links::Here;
use super::live::{List, View};
use super::person::name;
use super::time::number;
use crate::insights::answer::Listing;
use crate::insights::params::{Params, given};

/// Which list.
#[derive(Debug)]
pub(super) struct Kind {
    /// Where it is, for example `/holders`.
    pub(super) place: &'static str,
    /// What one of its entries is called, and several.
    pub(super) one: &'static str,
    pub(super) many: &'static str,
    /// What is said where there is none at all.
    pub(super) none: fn() -> Markup,
}

/// What it shows now, a row for each entry by its key.
pub(super) fn view<T>(
    here: &Here,
    kind: &Kind,
    params: &impl Params,
    listing: &Listing<T>,
    row: impl Fn(&T) -> (String, Markup),
) -> View {
    let place = |page| here.asked(kind.place, &params.to_url_query_of(page));
    let empty = html! {
        @if listing.total == 0 && params.is_filtered() { (none_match(kind.one, &here.at(kind.place))) }
        @else if listing.total == 0 { ((kind.none)()) }
        @else if is_past_end(listing) { (past_end(&place(1))) }
    };
    View {
        now: listing.now.clone(),
        parts: vec![
            ("shown", shown_of(listing, kind.many)),
            ("empty", empty),
            ("pages", pages(listing, place)),
            ("unreadable", unreadable(&listing.unreadable)),
        ],
        lists: vec![List {
            name: "rows",
            items: listing.entries.iter().map(row).collect(),
        }],
        ..View::default()
    }
}

/// A form that filters, while one types and when it is sent; and below it what it lets through.
pub(super) fn page(here: &Here, kind: &Kind, fields: &Markup, shown: &Markup) -> Markup {
    let place = here.at(kind.place);
    html! {
        form.filters #filters role="search" aria-label="Filters" method="get" action=(place) hx-get=(place)
            hx-target="#list" hx-push-url="true" hx-sync="this:replace"
            hx-trigger="input changed delay:300ms target:input, change target:select, submit" {
            (fields)
            button.apply type="submit" { "Apply" }
        }
        div #list { (shown) }
    }
}

/// Its rows under these heads, and what there is to say of them.
pub(super) fn table(view: &View, called: &str, heads: &Markup) -> Markup {
    html! {
        (view.block("unreadable"))
        (view.block("empty"))
        table.rows role="table" aria-label=(called) {
            thead role="rowgroup" { tr role="row" { (heads) } }
            tbody role="rowgroup" data-list="rows" { (view.items("rows")) }
        }
        (view.block("pages"))
    }
}

pub(super) fn heads(called: &[&str]) -> Markup {
    html! { @for called in called { th scope="col" role="columnheader" { (called) } } }
}

/// The head of a column that speaks for itself to whoever sees it.
pub(super) fn unseen_head(called: &str) -> Markup {
    html! { th scope="col" role="columnheader" { span.unseen { (called) } } }
}

pub(super) fn field(name: &str, label: &str, value: &Option<String>, hint: &str) -> Markup {
    html! {
        label { span { (label) }
            input name=(name) value=[given(value)] placeholder=(hint) autocomplete="off" spellcheck="false" maxlength="200"; }
    }
}

pub(super) fn select(
    name: &str,
    label: &str,
    value: &Option<String>,
    choices: &[(&str, &str)],
) -> Markup {
    let chosen = given(value).unwrap_or_default();
    html! {
        label { span { (label) }
            select name=(name) {
                @for (value, words) in choices { option value=(value) selected[*value == chosen] { (words) } }
            }
        }
    }
}

/// There is something, but not what is looked for.
fn none_match(what: &str, clear: &str) -> Markup {
    html! {
        section.state data-state="none-match" {
            p { strong { "No " (what) " matches these filters." } " " a href=(clear) { "Clear filters" } }
        }
    }
}

fn past_end(first: &str) -> Markup {
    html! {
        section.state data-state="past-end" {
            p { strong { "There are not so many pages any more." } " " a href=(first) { "Go to the first" } }
        }
    }
}

/// Is there something, but on pages before this one?
fn is_past_end<T>(listing: &Listing<T>) -> bool {
    listing.page > 1 && listing.entries.is_empty() && listing.unreadable.is_empty()
}

/// `showing 50 of 1 234 leases`.
fn shown_of<T>(listing: &Listing<T>, what: &str) -> Markup {
    let shown = u64::try_from(listing.entries.len()).unwrap_or(u64::MAX);
    html! { "showing " (number(shown)) " of " (number(listing.total)) " " (what) }
}

fn pages<T>(listing: &Listing<T>, place: impl Fn(u64) -> String) -> Markup {
    let (page, pages) = (u64::from(listing.page), listing.pages());
    html! {
        @if pages > 1 {
            nav.pages aria-label="Pages" {
                @if page > 1 { a rel="prev" href=(place((page - 1).min(pages))) { "← previous" } }
                span { "page " (number(page)) " of " (number(pages)) }
                @if page < pages { a rel="next" href=(place(page + 1)) { "next →" } }
            }
        }
    }
}

pub(super) fn unreadable(lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            section.state data-state="unreadable" {
                p { strong { "Some entries cannot be read:" } }
                ul { @for line in lines { li { (name(line)) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lead_to_their_neighbours() {
        let listing = |page| Listing::<()> {
            now: None,
            total: 120,
            page,
            per_page: 50,
            entries: Vec::new(),
            unreadable: Vec::new(),
        };
        let html = |page| pages(&listing(page), |page| format!("/p{page}")).into_string();
        assert!(!html(1).contains("previous") && html(1).contains("/p2"));
        assert!(html(2).contains("/p1") && html(2).contains("/p3"));
        assert!(html(3).contains("/p2") && !html(3).contains("next"));
        assert!(html(900).contains("/p3"));
    }
}
