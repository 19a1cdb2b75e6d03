//! Moments as people read them. The script turns them into "3 min ago", by the server's clock.

use maud::{Markup, html};

/// A moment that has passed: the script says how long ago.
pub(super) fn ago(at: &str) -> Markup {
    moment(at, "ago")
}

/// A moment to come: the script counts down to it.
pub(super) fn left(at: &str) -> Markup {
    moment(at, "in")
}

/// A moment, whichever.
pub(super) fn at(at: &str) -> Markup {
    moment(at, "at")
}

fn moment(at: &str, said: &str) -> Markup {
    html! { time datetime=(at) data-said=(said) { (in_utc(at)) } }
}

/// `2026-11-30T19:48:25.120Z` without what nobody reads.
fn in_utc(at: &str) -> String {
    let second = at.get(..19).unwrap_or(at);
    format!("{} UTC", second.replace('T', " "))
}

/// A number in groups of three digits.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1 lease`, `2 leases`.
pub(super) fn several(count: u64, one: &str, many: &str) -> String {
    let word = if count == 1 { one } else { many };
    format!("{} {word}", number(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let numbers = [
            (0, "0"),
            (50, "50"),
            (1234, "1 234"),
            (1_000_000, "1 000 000"),
        ];
        for (given, expected) in numbers {
            assert_eq!(number(given), expected);
        }
    }

    #[test]
    fn moment_says_all_without_a_script() {
        let expected = r#"<time datetime="2026-11-30T19:48:25.12Z" data-said="ago">2026-11-30 19:48:25 UTC</time>"#;
        assert_eq!(ago("2026-11-30T19:48:25.12Z").into_string(), expected);
    }
}
