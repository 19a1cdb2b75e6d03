//! What a long wait says on standard error.

use std::cell::RefCell;
use std::pin::pin;
use std::time::Duration;

use lease_brain::words;
use tokio::time::{Instant, sleep};

use crate::output;

/// The longest silence, if no other is asked for.
const SILENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether that has passed.
const TICK: Duration = Duration::from_millis(250);

/// A line at each change, and whenever nothing was said for five seconds, or for as long as was asked for.
pub(crate) struct Ticker {
    begun: Instant,
    silence: Duration,
    limit: Option<Duration>,
    /// What was told last, whether it was said or not.
    last: Option<(String, String)>,
    said: Option<(String, Duration)>,
}

/// Does the work, which tells the ticker what is going on. While it has nothing to tell, for its own questions are not
/// answered, what it told last is said again.
pub(crate) async fn ticking<T>(ticker: &RefCell<Ticker>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = sleep(TICK) => {}
        }
        let last = ticker.borrow().last.clone();
        if let Some((what, more)) = last {
            ticker.borrow_mut().tell(&what, &more);
        }
    }
}

impl Ticker {
    pub(crate) fn new(limit: Option<Duration>) -> RefCell<Self> {
        RefCell::new(Self::with_silence(SILENCE, limit))
    }

    pub(crate) fn with_silence(silence: Duration, limit: Option<Duration>) -> Self {
        Self {
            begun: Instant::now(),
            silence,
            limit,
            last: None,
            said: None,
        }
    }

    /// What is going on, and what of it changes all the time.
    pub(crate) fn tell(&mut self, what: &str, more: &str) {
        self.last = Some((what.to_owned(), more.to_owned()));
        if let Some(line) = self.line(what, more, self.begun.elapsed()) {
            eprintln!("lease: {line}");
        }
    }

    fn line(&mut self, what: &str, more: &str, elapsed: Duration) -> Option<String> {
        if let Some((said, at)) = &self.said
            && said == what
            && elapsed.saturating_sub(*at) < self.silence
        {
            return None;
        }
        self.said = Some((what.to_owned(), elapsed));
        let limit = self.limit.map_or_else(String::new, |limit| {
            format!(" of {}", humantime::format_duration(limit))
        });
        let elapsed = words::seconds(i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX));
        Some(output::printable(&format!(
            "{what}{more} ({elapsed}{limit})"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_at_once_and_no_silence_is_longer_than_five_seconds() {
        let mut ticker = Ticker::new(Some(Duration::from_secs(600))).into_inner();
        let mut told =
            |what: &str, more: &str, millis| ticker.line(what, more, Duration::from_millis(millis));
        let line = |text: &str| Some(text.to_owned());
        assert_eq!(told("waiting", "", 0), line("waiting (0s of 10m)"));
        assert_eq!(told("waiting", ", next in 1s", 4_900), None);
        assert_eq!(
            told("waiting", ", next in 9s", 5_000),
            line("waiting, next in 9s (5s of 10m)")
        );
        assert_eq!(told("running", "", 5_100), line("running (5s of 10m)"));
        assert_eq!(told("running", "", 10_000), None);
        assert_eq!(told("running", "", 10_100), line("running (10s of 10m)"));
    }
    #[test]
    fn silence_is_as_long_as_it_was_asked_for() {
        let mut ticker = Ticker::with_silence(Duration::from_secs(30), None);
        let mut told = |more: &str, seconds| {
            let line = ticker.line("waiting", more, Duration::from_secs(seconds));
            line.is_some()
        };
        let said = [5, 6, 34, 35, 36, 65].map(|seconds| told(&format!(" {seconds}"), seconds));
        assert_eq!(said, [true, false, false, true, false, true]);
    }
}
