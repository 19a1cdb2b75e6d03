//! How full a counter is.

use lease_shared::{Level, TenantCounter};
use maud::{Markup, html};

use super::links::Here;
use super::person::name;

/// Widths in parts of 1000, as attributes of a picture: the policy of the page allows no style in a document.
fn widths(counter: &TenantCounter) -> [i64; 3] {
    let whole = counter.count.max(counter.cap).max(1);
    // Whatever stands in the store, it fits.
    let part = |slots: i64| slots.clamp(0, whole).saturating_mul(1000) / whole;
    let over = counter.count.saturating_sub(counter.cap);
    let ending = counter.awaiting_cleanup.min(counter.count);
    let used = part(counter.count);
    [used, part(ending), part(over)]
}

/// A bar, for the eye alone: the words beside it say the same.
pub(super) fn bar(counter: &TenantCounter) -> Markup {
    let [used, ending, over] = widths(counter);
    let kind = if counter.is_full() { "full" } else { "used" };
    html! {
        svg.bar viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect.track width="1000" height="10" {}
            rect class=(kind) width=(used) height="10" {}
            @if ending > 0 { rect.ending x=(used - ending) width=(ending) height="10" {} }
            @if over > 0 { rect.over x=(1000 - over) width=(over) height="10" {} }
        }
    }
}

/// `5 of 6 in use`, and what is odd about it.
pub(super) fn words(here: &Here, counter: &TenantCounter) -> Markup {
    let over = counter.count.saturating_sub(counter.cap);
    html! {
        strong { (counter.count) " of " (counter.cap) } " in use"
        @if counter.is_over_cap() { " " span.word.bad { "over cap by " (over) } }
        @if counter.drift != 0 {
            " " span.word.odd title="slots in use less the leases that say they book them" {
                "drift " (format!("{:+}", counter.drift))
            }
            " " span.quiet { (what_mends(counter.drift)) }
        }
        @if counter.is_full() {
            " " span.word.warn { "full: who asks next waits" }
            " " a href=(here.users_of(counter)) data-f="fill" { "who fills it" }
        }
    }
}

/// What becomes of a drift.
fn what_mends(drift: i64) -> &'static str {
    match drift > 0 {
        true => {
            "Slots that no lease stands behind: freed within minutes, or by whoever finds no room left."
        }
        false => {
            "Leases beyond what is counted: they end as others do; an operator sees which, with lease reconcile."
        }
    }
}

/// Whose slots it counts.
pub(super) fn scope(counter: &TenantCounter) -> Markup {
    html! {
        @match (counter.level, &counter.project, &counter.user) {
            (Level::Project, Some(project), _) => { "project " (name(project)) }
            (Level::User, _, Some(user)) => { "user " (name(user)) }
            _ => { "the whole tenant" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(count: i64, cap: i64, booked: i64) -> TenantCounter {
        TenantCounter {
            key: "k".to_owned(),
            resource: "tex".to_owned(),
            level: Level::Tenant,
            project: None,
            user: None,
            lease: "tex".to_owned(),
            cap,
            count,
            booked,
            awaiting_cleanup: 0,
            pending: 0,
            drift: count - booked,
            updated_at: "2026-11-30T19:48:25Z".to_owned(),
        }
    }

    #[test]
    fn what_is_odd_has_its_word() {
        let here = Here::new("acme".to_owned(), "ada".to_owned());
        let rows: [(TenantCounter, &[&str], &[&str]); 5] = [
            (counter(2, 6, 2), &["2 of 6"], &["full", "drift", "over"]),
            (
                counter(6, 6, 6),
                &["who asks next waits"],
                &["drift", "over"],
            ),
            (counter(7, 6, 7), &["over cap by 1", "full"], &["drift"]),
            (
                counter(2, 6, 1),
                &["drift +1", "freed within minutes"],
                &["full", "over"],
            ),
            (
                counter(2, 6, 4),
                &["drift -2", "lease reconcile"],
                &["full", "over"],
            ),
        ];
        for (counter, said, unsaid) in rows {
            let words = words(&here, &counter).into_string();
            for text in said {
                assert!(words.contains(text), "{text}: {words}");
            }
            for text in unsaid {
                assert!(!words.contains(text), "{text}: {words}");
            }
        }
    }

    #[test]
    fn bar_stays_within_its_frame() {
        for counter in [
            counter(0, 0, 0),
            counter(3, 0, 3),
            counter(-1, 5, 0),
            counter(i64::MAX / 1001, 1, 0),
        ] {
            for width in widths(&counter) {
                assert!((0..=1000).contains(&width), "{counter:?}: {width}");
            }
        }
        assert_eq!(widths(&counter(8, 4, 8)), [1000, 0, 500]);
    }
}
