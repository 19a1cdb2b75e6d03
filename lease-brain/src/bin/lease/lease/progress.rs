//! Who holds what is waited for: on a terminal all the time, elsewhere now and then.

use std::convert::Infallible;
use std::future::pending;
use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lease_brain::words;
use lease_shared::Busy;
use tokio::time::{Instant, sleep};

use crate::output;
use crate::ticker::Ticker;

/// A wait that is no longer needs no words in a log.
const QUIET: Duration = Duration::from_secs(5);
/// How often a log is told.
const REPEAT: Duration = Duration::from_secs(30);
/// How often it is looked whether that has passed.
const LOOK: Duration = Duration::from_millis(250);

/// One line on standard error that counts the time; where that is no terminal, a line every 30 seconds.
pub(crate) struct Progress {
    bar: ProgressBar,
    latest: Mutex<Option<WaitedFor>>,
}

/// What is waited for, as it was found last.
struct WaitedFor {
    what: String,
    oldest: Option<Oldest>,
}

/// Who has held it for the longest, as far as that may be told.
struct Oldest {
    who: String,
    since: Instant,
}

impl WaitedFor {
    fn of(busy: &Busy) -> Self {
        let oldest = busy.oldest.as_ref().map(|oldest| {
            let now = Instant::now();
            Oldest {
                who: match &oldest.identity {
                    Some(holder) => format!(" by {} ({})", holder.holder_ref, holder.tenancy),
                    None => String::new(),
                },
                since: now.checked_sub(oldest.held_for).unwrap_or(now),
            }
        });
        Self {
            what: format!(
                "for {}: {} of {} in use at level {}",
                busy.resource, busy.in_use, busy.cap, busy.level
            ),
            oldest,
        }
    }

    fn text(&self) -> String {
        let Some(Oldest { who, since }) = &self.oldest else {
            return self.what.clone();
        };
        let held = i64::try_from(since.elapsed().as_secs()).unwrap_or(i64::MAX);
        format!("{}, longest{who} for {}", self.what, words::seconds(held))
    }
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} waiting {elapsed} {msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            latest: Mutex::default(),
        }
    }

    pub(crate) fn show(&self, busy: &Busy) {
        let found = WaitedFor::of(busy);
        self.bar.set_message(output::printable(&found.text()));
        self.bar.enable_steady_tick(Duration::from_millis(250));
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
    }

    /// Tells who reads it later, as in the log of a CI step, for as long as it is polled.
    pub(crate) async fn log(&self, limit: Option<Duration>) -> Infallible {
        if stderr().is_terminal() {
            return pending().await;
        }
        let mut ticker = Ticker::with_silence(REPEAT, limit);
        sleep(QUIET).await;
        loop {
            if let Some(text) = self.text() {
                ticker.tell("waiting", &format!(" {text}"));
            }
            sleep(LOOK).await;
        }
    }

    fn text(&self) -> Option<String> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.as_ref().map(WaitedFor::text)
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
