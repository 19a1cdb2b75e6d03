//! How data is printed: tables for people, JSON for scripts, always to standard output.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, stat};
use serde::Serialize;

/// Prints a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&printable_json(&serde_json::to_string_pretty(value)?))
}

/// Prints one line, or more.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints a text as it is, to the byte.
pub(crate) fn exactly(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Whether this process was started without a standard output, as by `>&-`: writing to it would seem to succeed.
///
/// The runtime then opens the null device in its place, for reading and writing, which a shell's `>/dev/null` does not.
pub(crate) fn is_closed() -> bool {
    let out = rustix::stdio::stdout();
    let (Ok(ours), Ok(null)) = (fstat(out), stat("/dev/null")) else {
        return false;
    };
    let is_null = ours.st_rdev == null.st_rdev
        && FileType::from_raw_mode(ours.st_mode) == FileType::CharacterDevice;
    is_null && fcntl_getfl(out).is_ok_and(|flags| flags.contains(OFlags::RDWR))
}

/// Prints rows under a header, cut to the terminal's width where there is one.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> anyhow::Result<()> {
    line(&table_text(header, rows))
}

/// The same, to be printed elsewhere.
pub(crate) fn table_text<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    // What nobody has given a size says 0, and would have each letter on a line of its own.
    if table.width() == Some(0) {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    for row in rows {
        table.add_row(row.map(|cell| printable(&cell)));
    }
    table.to_string()
}

/// What others chose as a name must neither steer the terminal nor reorder what it shows.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// JSON escapes only the older half of the control characters. The others stand in strings alone, as all escapes may.
fn printable_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) && c != '\n' {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

fn is_unprintable(c: char) -> bool {
    let reorders =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reorders
}

/// Says what could not be read, on standard error.
pub(crate) fn unreadable(problems: &[String]) {
    for problem in problems {
        eprintln!("lease: warning: not shown: {}", printable(problem));
    }
}
