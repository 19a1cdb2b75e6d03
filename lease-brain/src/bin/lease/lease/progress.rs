//! Who holds what is waited for, on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lease_brain::words;
use lease_shared::Busy;

use crate::output;

/// One line on standard error that counts the time; nothing where that is no terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} waiting {elapsed} {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(crate) fn show(&self, busy: &Busy) {
        let mut message = format!(
            "for {}: {} of {} in use at level {}",
            busy.resource, busy.in_use, busy.cap, busy.level
        );
        if let Some(oldest) = &busy.oldest {
            let since = words::seconds(oldest.held_for.as_secs() as i64);
            let who = match &oldest.identity {
                Some(holder) => format!(" by {} ({})", holder.holder_ref, holder.tenancy),
                None => String::new(),
            };
            message.push_str(&format!(", longest{who} for {since}"));
        }
        self.0.set_message(output::printable(&message));
        self.0.enable_steady_tick(Duration::from_millis(250));
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
