//! Where a set of keys comes from, and when it is looked at again.
//!
//! An identity provider changes its keys while tokens are in use, and is away at times. So a set is looked at again when it
//! is old, and for a token of a key that is not in it, though not for every one: whoever sends made-up tokens must not
//! have the provider asked each time. If a look fails, the last good set holds on, but not for ever: keys that were taken
//! back would.

mod fetch;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::keys::{KeySet, Signed};
use fetch::Place;

/// How long the last good set holds when no look succeeds.
const LAST: Duration = Duration::from_secs(60 * 60);

/// A set of keys that can change.
#[derive(Debug, Clone)]
pub(super) struct JwksSource(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: Place,
    pace: Pace,
    /// Held by the one look at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Never locked over an await.
    state: Mutex<State>,
}

/// How often is looked.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// When a set is old.
    fresh: Duration,
    /// Between two looks after one that failed.
    again: Duration,
    /// Between two looks for keys that are not known.
    unknown: Duration,
}

impl Pace {
    /// A look costs nothing.
    const FILE: Self = Self {
        fresh: Duration::from_secs(1),
        again: Duration::from_secs(1),
        unknown: Duration::from_secs(1),
    };
    const URL: Self = Self {
        fresh: Duration::from_secs(10 * 60),
        again: Duration::from_secs(2),
        unknown: Duration::from_secs(30),
    };
}

/// What the looks have brought.
#[derive(Debug, Default)]
struct State {
    good: Option<Good>,
    failed_at: Option<Instant>,
    looked_for_unknown: Option<Instant>,
}

#[derive(Debug)]
struct Good {
    text: Vec<u8>,
    keys: Arc<KeySet>,
    at: Instant,
}

impl State {
    /// Whether it is time to look, for a token that was signed so.
    fn is_due(&self, signed: &Signed<'_>, now: Instant, pace: Pace) -> bool {
        let since =
            |at: Option<Instant>, least| at.is_none_or(|at| now.duration_since(at) >= least);
        match &self.good {
            Some(good) if now.duration_since(good.at) < pace.fresh => {
                !good.keys.knows(signed) && since(self.looked_for_unknown, pace.unknown)
            }
            Some(_) | None => since(self.failed_at, pace.again),
        }
    }

    /// The keys, as long as they may be relied on.
    fn keys(&self, now: Instant) -> Option<Arc<KeySet>> {
        let good = self.good.as_ref()?;
        (now.duration_since(good.at) < LAST).then(|| Arc::clone(&good.keys))
    }

    fn begin(&mut self, signed: &Signed<'_>, now: Instant) {
        if self.good.as_ref().is_some_and(|it| !it.keys.knows(signed)) {
            self.looked_for_unknown = Some(now);
        }
    }

    /// Takes what a look has brought: words for the log, if there is something to say.
    fn end(&mut self, looked: Result<Vec<u8>, String>, now: Instant) -> Option<String> {
        let taken = looked.and_then(|text| self.take(text, now));
        let was_failing = self.failed_at.is_some();
        match taken {
            Ok(left_out) => {
                self.failed_at = None;
                (!left_out.is_empty()).then(|| format!("left out: {}", left_out.join("; ")))
            }
            Err(problem) => {
                self.failed_at = Some(now);
                // Once for each time of failure.
                (!was_failing).then_some(problem)
            }
        }
    }

    fn take(&mut self, text: Vec<u8>, now: Instant) -> Result<Vec<String>, String> {
        if let Some(good) = self.good.as_mut().filter(|good| good.text == text) {
            good.at = now;
            return Ok(Vec::new());
        }
        let (keys, left_out) = KeySet::parse(&text)?;
        let keys = Arc::new(keys);
        self.good = Some(Good {
            text,
            keys,
            at: now,
        });
        Ok(left_out)
    }
}

impl JwksSource {
    pub(super) fn new(place: &str) -> Result<Self, UnusableJwks> {
        let place = Place::parse(place)?;
        let mut state = State::default();
        let pace = match &place {
            Place::Url { .. } => Pace::URL,
            // What is wrong with a file can be said at once.
            Place::File(path) => {
                let text = fetch::read(path).map_err(|error| UnusableJwks::Unreadable {
                    path: path.clone(),
                    error,
                })?;
                let unusable = |problem: String| UnusableJwks::NoKeys {
                    path: path.clone(),
                    problem,
                };
                let left_out = state.take(text, Instant::now()).map_err(unusable)?;
                if state.good.as_ref().is_some_and(|good| good.keys.is_empty()) {
                    let problem = "has no key that can be used".to_owned();
                    return Err(unusable([vec![problem], left_out].concat().join("; ")));
                }
                Pace::FILE
            }
        };
        Ok(Self(Arc::new(Inner {
            place,
            pace,
            turn: Arc::default(),
            state: Mutex::new(state),
        })))
    }

    /// The keys for a token that was signed so; nothing if they cannot be had.
    pub(super) async fn keys(&self, signed: &Signed<'_>) -> Option<Arc<KeySet>> {
        let inner = &self.0;
        if inner.is_due(signed) {
            let turn = Arc::clone(&inner.turn);
            // Who has keys that will do does not wait for another's look.
            let turn = match inner.will_do(signed) {
                true => turn.try_lock_owned().ok(),
                false => Some(turn.lock_owned().await),
            };
            // Whoever had the turn before may have looked.
            if let Some(turn) = turn.filter(|_| inner.is_due(signed)) {
                inner.state().begin(signed, Instant::now());
                let looker = Arc::clone(inner);
                // To its end, also when this caller goes away: else callers that do could keep the keys from ever coming.
                let looking = tokio::spawn(async move {
                    looker.look().await;
                    drop(turn);
                });
                if let Err(error) = looking.await {
                    tracing::error!(%error, "a look at the keys of tokens ended");
                }
            }
        }
        inner.state().keys(Instant::now())
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self, signed: &Signed<'_>) -> bool {
        self.state().is_due(signed, Instant::now(), self.pace)
    }

    fn will_do(&self, signed: &Signed<'_>) -> bool {
        let keys = self.state().keys(Instant::now());
        keys.is_some_and(|keys| keys.knows(signed))
    }

    async fn look(&self) {
        let looked = self.place.look().await;
        let said = self.state().end(looked, Instant::now());
        if let Some(problem) = said {
            tracing::warn!(problem, "the keys of tokens, --jwt-jwks {}", self.place);
        }
    }
}

/// A place from which no keys can come.
#[derive(Debug, thiserror::Error)]
pub enum UnusableJwks {
    /// The file cannot be read.
    #[error("{} cannot be read ({error}): name the file with the provider's public keys", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{} {problem}", path.display())]
    NoKeys {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing may be fetched there. The URL is not shown: a secret may be in it.
    #[error("{0}")]
    Url(&'static str),
}

#[cfg(test)]
mod tests;
