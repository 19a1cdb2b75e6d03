//! How data is printed: tables for people, JSON for scripts, always to standard output.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// Prints a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string_pretty(value)?)
}

/// Prints one line, or more.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints rows under a header, cut to the terminal's width where there is one.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> anyhow::Result<()> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    for row in rows {
        table.add_row(row.map(|cell| printable(&cell)));
    }
    line(&table.to_string())
}

/// What others chose as a name must not steer the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_control() {
                c.escape_default().collect()
            } else {
                vec![c]
            }
        })
        .collect()
}

/// Seconds as people say them, for example `2m 5s`.
pub(crate) fn seconds(seconds: i64) -> String {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string()
}

/// Says what could not be read, on standard error.
pub(crate) fn unreadable(problems: &[String]) {
    for problem in problems {
        eprintln!("lease: warning: not shown: {}", printable(problem));
    }
}
