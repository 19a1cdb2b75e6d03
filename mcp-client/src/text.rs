//! Words of a server, made fit to be shown.

/// The most characters that an error shows of a server's words.
pub(crate) const SHOWN: usize = 200;

/// The first `limit` characters of `text` with its control characters escaped, so that it stays on its line and cannot
/// steer a terminal.
pub(crate) fn shown(text: &str, limit: usize) -> String {
    let mut line = String::new();
    for (count, char) in text.trim().chars().enumerate() {
        if count == limit {
            line.push('…');
            break;
        }
        if char.is_control() {
            line.extend(char.escape_default());
        } else {
            line.push(char);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_is_shown_stays_on_its_line_and_within_its_limit() {
        assert_eq!(shown(" fine \n", 10), "fine");
        assert_eq!(shown("red \u{1b}[31m\nline", 40), "red \\u{1b}[31m\\nline");
        assert_eq!(shown("éééé", 3), "ééé…");
    }
}
