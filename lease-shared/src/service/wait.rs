//! The FIFO lines in which the acquirers of one process wait, one line per full counter.
//!
//! Only the first few of a line ask the store; the others wait for their turn without traffic. A line holds waiters,
//! never holders: it knows nothing of who has a slot, so nothing in it can leak one.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// At most this many of one line ask the store at a time.
const MOST_ACTIVE: usize = 8;

#[derive(Debug, Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<HashMap<String, Line>>>);

#[derive(Debug, Default)]
struct Line {
    active: usize,
    waiters: VecDeque<Arc<Waiter>>,
}

#[derive(Debug, Default)]
struct Waiter {
    /// A slot came back and this one is to look, which it has not done yet.
    called: AtomicBool,
    /// Rings for a call, and when the turn to ask the store has come.
    bell: Notify,
}

impl Waiter {
    /// False if it had been called already.
    fn call(&self) -> bool {
        let first = !self.called.swap(true, Ordering::AcqRel);
        if first {
            self.bell.notify_one();
        }
        first
    }
}

impl Lines {
    /// Joins the end of the line at `key`, of whose waiters as many as the cap, but at most eight, may ask the store.
    pub(crate) fn join(&self, key: &str, cap: u16) -> Place {
        let waiter = Arc::new(Waiter::default());
        self.with(|lines| {
            let line = lines.entry(key.to_owned()).or_default();
            line.waiters.push_back(Arc::clone(&waiter));
            line.allow(usize::from(cap).min(MOST_ACTIVE));
        });
        Place {
            lines: self.clone(),
            key: key.to_owned(),
            waiter,
        }
    }

    /// The first of these keys at which somebody waits.
    pub(crate) fn first_with_waiters(&self, keys: &[String]) -> Option<usize> {
        self.with(|lines| keys.iter().position(|key| lines.contains_key(key)))
    }

    /// Slots of these counters came back: calls one waiter of each line, the first that has not been called already.
    pub(crate) fn call(&self, keys: &[String]) {
        self.with(|lines| {
            for line in keys.iter().filter_map(|key| lines.get(key)) {
                line.call_one();
            }
        });
    }

    /// The lock is held for the length of one closure, never over an await.
    fn with<T>(&self, look: impl FnOnce(&mut HashMap<String, Line>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Line {
    /// Lets this many ask the store, and tells those whose turn has thereby come. Callers may see different caps: what
    /// the last of them saw holds.
    fn allow(&mut self, active: usize) {
        let before = std::mem::replace(&mut self.active, active);
        for waiter in self.waiters.iter().take(active).skip(before) {
            waiter.bell.notify_one();
        }
    }

    fn call_one(&self) {
        self.waiters
            .iter()
            .take(self.active)
            .any(|waiter| waiter.call());
    }
}

/// A place in a line. Dropping it leaves the line, and the next one moves up.
#[derive(Debug)]
pub(crate) struct Place {
    lines: Lines,
    key: String,
    waiter: Arc<Waiter>,
}

impl Place {
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// How many stand in front.
    pub(crate) fn position(&self) -> usize {
        self.lines.with(|lines| {
            let waiters = lines.get(&self.key).map(|line| &line.waiters);
            let place = |waiters: &VecDeque<Arc<Waiter>>| {
                waiters.iter().position(|w| Arc::ptr_eq(w, &self.waiter))
            };
            waiters.and_then(place).unwrap_or(0)
        })
    }

    /// May this one ask the store?
    pub(crate) fn is_active(&self) -> bool {
        let position = self.position();
        self.lines.with(|lines| {
            lines
                .get(&self.key)
                .is_none_or(|line| position < line.active)
        })
    }

    /// Returns when a slot came back (true), or the turn to ask the store now and then has come (false). Cancel-safe:
    /// what nobody heard is heard next time.
    pub(crate) async fn news(&self) -> bool {
        self.waiter.bell.notified().await;
        self.waiter.called.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lines.with(|lines| {
            let Some(line) = lines.get_mut(&self.key) else {
                return;
            };
            line.waiters
                .retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
            if line.waiters.is_empty() {
                lines.remove(&self.key);
                return;
            }
            // The turn passes on; and so does a call that came to the one who left.
            if let Some(next) = line.waiters.get(line.active.saturating_sub(1)) {
                next.bell.notify_one();
            }
            if self.waiter.called.load(Ordering::Acquire) {
                line.call_one();
            }
        });
    }
}

/// The pauses between two polls: full jitter, so that pods do not march in step, below 50 ms at first and below a
/// second at last.
#[derive(Debug)]
pub(crate) struct Pauses {
    ceiling: Duration,
}

impl Pauses {
    const FIRST: Duration = Duration::from_millis(50);
    const LAST: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Self {
            ceiling: Self::FIRST,
        }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.ceiling.mul_f64(fastrand::f64());
        self.ceiling = (self.ceiling * 2).min(Self::LAST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn is_called(place: &Place) -> bool {
        place.news().now_or_never() == Some(true)
    }

    #[test]
    fn as_many_as_the_cap_are_active_and_never_more_than_eight() {
        for (cap, active) in [(1, 1), (6, 6), (8, 8), (1000, 8)] {
            let lines = Lines::default();
            let places: Vec<Place> = (0..12).map(|_| lines.join("k", cap)).collect();
            assert_eq!(
                places.iter().filter(|place| place.is_active()).count(),
                active
            );
            assert!(places[0].is_active());
        }
    }

    #[test]
    fn a_returned_slot_calls_one_waiter_and_two_call_two() {
        let lines = Lines::default();
        let places: Vec<Place> = (0..3).map(|_| lines.join("k", 3)).collect();
        lines.call(&["other".to_owned(), "k".to_owned()]);
        assert_eq!(
            places.iter().map(is_called).collect::<Vec<_>>(),
            [true, false, false]
        );
        lines.call(&["k".to_owned()]);
        lines.call(&["k".to_owned()]);
        assert_eq!(
            places.iter().map(is_called).collect::<Vec<_>>(),
            [true, true, false]
        );
    }

    #[test]
    fn who_leaves_hands_on_the_turn_and_the_call() {
        let lines = Lines::default();
        let first = lines.join("k", 1);
        let second = lines.join("k", 1);
        let third = lines.join("k", 1);
        assert!(!second.is_active());
        lines.call(&["k".to_owned()]);
        drop(first);
        assert!(second.is_active() && is_called(&second));
        assert!(!third.is_active() && !is_called(&third));
        drop(second);
        drop(third);
        assert_eq!(lines.first_with_waiters(&["k".to_owned()]), None);
    }

    #[test]
    fn who_becomes_active_by_a_larger_cap_is_told() {
        let lines = Lines::default();
        let _first = lines.join("k", 1);
        let second = lines.join("k", 1);
        assert!(!second.is_active());
        let _third = lines.join("k", 8);
        assert!(second.is_active() && second.news().now_or_never() == Some(false));
    }

    #[test]
    fn pauses_begin_below_50_ms_and_stay_below_a_second() {
        let mut pauses = Pauses::new();
        assert!(pauses.next() <= Duration::from_millis(50));
        assert!((0..50).all(|_| pauses.next() <= Duration::from_secs(1)));
    }
}
