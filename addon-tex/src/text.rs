//! Texts of strangers, made fit to be shown.

/// Longer replies and messages are cut.
const LIMIT: usize = 200;

/// One line of at most 200 characters, without any that a terminal would obey.
pub(crate) fn one_line(text: &str) -> String {
    let text = text.trim();
    let mut line = escaped(text.chars().take(LIMIT));
    if text.chars().nth(LIMIT).is_some() {
        line.push('…');
    }
    line
}

/// `line` without the characters that a terminal would obey, and with spaces for its tabs.
pub(crate) fn log_line(line: &str) -> String {
    escaped(line.chars().map(|it| if it == '\t' { ' ' } else { it }))
}

/// Escapes control characters, and those that change the direction of what follows.
fn escaped(characters: impl Iterator<Item = char>) -> String {
    let mut text = String::new();
    for it in characters {
        let turns = matches!(it, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if it.is_control() || turns {
            text.extend(it.escape_default());
        } else {
            text.push(it);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_text_is_one_short_line() {
        assert_eq!(one_line(" fine, Ünïcode \n"), "fine, Ünïcode");
        assert_eq!(
            one_line("a\nb\u{1b}[2J\u{202e}"),
            "a\\nb\\u{1b}[2J\\u{202e}"
        );
        assert_eq!(one_line(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(one_line(&"é".repeat(201)), "é".repeat(200) + "…");
        assert_eq!(log_line("\ta\u{7}"), " a\\u{7}");
    }
}
