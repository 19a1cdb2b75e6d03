//! What is around every page.

use maud::{DOCTYPE, Markup, html};

use super::links::Here;
use super::live::View;
use super::person::name;
use super::time::number;
use crate::http::assets::{HTMX, HTMX_CONFIG, SCRIPT, STYLE};
use crate::insights::answer::Counts;

/// One page, apart from what is around it.
pub(super) struct Content<'a> {
    /// What it is called, above it and in the browser's title.
    pub(super) title: &'a str,
    /// Where it stands among the tabs: the last part of the tab's address.
    pub(super) tab: Option<&'static str>,
    pub(super) main: Markup,
}

/// The places of the tabs, and what they are called.
const TABS: [(&str, &str); 4] = [
    ("", "Overview"),
    ("holders", "Holders"),
    ("counters", "Counters"),
    ("revocations", "Revocations"),
];

/// How many there are behind a tab, as parts of a view.
pub(super) fn tab_counts(counts: &Counts) -> Vec<(&'static str, Markup)> {
    let totals = &counts.totals;
    let revoking = totals.revoking + totals.failed;
    let holders = totals.held + totals.pending + revoking;
    let failed = html! {
        span.count { (number(revoking)) }
        @if totals.failed > 0 { " " span.word.bad { (number(totals.failed)) " failed" } }
    };
    vec![
        ("tab-holders", html! { span.count { (number(holders)) } }),
        (
            "tab-counters",
            html! { span.count { (number(counts.counters)) } },
        ),
        ("tab-revocations", failed),
    ]
}

/// The page of somebody who is let in; the tabs' counts are in `view`, if they could be had.
pub(super) fn page(here: &Here, content: &Content<'_>, view: Option<&View>) -> Markup {
    let title = format!("{} · {} · leases", content.title, here.tenant);
    let head = html! {
        header.top {
            p.brand { "Leases of " strong { (name(&here.tenant)) } }
            p.live {
                span #badge role="status" data-badge="off" { "not live" }
                " " span #badge-age aria-hidden="true" {}
                " " a #badge-sign-in href=(here.at("")) hidden { "sign in" }
            }
            form.who method="post" action=(here.at("/logout")) {
                span { "Signed in as " strong #subject { (name(&here.subject)) } }
                button #sign-out type="submit" { "Sign out" }
            }
        }
        nav.tabs aria-label="Views" {
            ul {
                @for (place, called) in TABS {
                    @let current = (content.tab == Some(place)).then_some("page");
                    li {
                        a href=(here.at(&slashed(place))) aria-current=[current] data-tab=(place) {
                            (called) " "
                            @if let (Some(view), false) = (view, place.is_empty()) {
                                (view.span(&format!("tab-{place}")))
                            }
                        }
                    }
                }
            }
        }
    };
    let main = html! {
        h1 { (content.title) }
        div #outcome role="status" {}
        (content.main)
        dialog #dialog aria-labelledby="dialog-title" {}
        p #moved hidden { button #show-moved type="button" {} }
    };
    document(&title, &head, &main)
}

/// A page for somebody who is not.
pub(super) fn bare(content: &Content<'_>) -> Markup {
    let head = html! { header.top { p.brand { strong { "Leases" } } } };
    let main = html! { h1 { (content.title) } (content.main) };
    document(&format!("{} · leases", content.title), &head, &main)
}

fn slashed(place: &str) -> String {
    match place {
        "" => String::new(),
        place => format!("/{place}"),
    }
}

fn document(title: &str, head: &Markup, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(HTMX_CONFIG);
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(STYLE.url());
                script src=(HTMX.url()) defer {}
                script src=(SCRIPT.url()) defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                (head)
                main #main tabindex="-1" { (main) }
            }
        }
    }
}
