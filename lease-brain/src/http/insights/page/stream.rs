//! What changes while somebody looks at a page, sent to it as it does.
//!
//! The store is read anew every two seconds for each page that is open: that is the price, and why there is a limit. A read
//! that takes long is done less often. Before each read its visitor is let in anew, for a token expires and keys are withdrawn.
//! A stream ends with that, and when the brain stops: it holds up no drain.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use lease_shared::in_full;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::live::{Changes, Sent, View};
use super::places::Place;
use super::tab::Tab;
use super::visit::Visit;
use crate::http::insights::NotAdmitted;
use crate::insights::InsightsError;

/// Between two reads: at least, at most, and as a multiple of what the last one took.
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);
const TIMES: u32 = 10;
/// At most, after a read that did not succeed: what is down is to be seen to come back, and what is overloaded to be spared.
const WHEN_DOWN: Duration = Duration::from_secs(8);
/// After what time a page asks again that has lost its stream.
const RETRY: Duration = Duration::from_secs(2);

pub(super) fn watch(mut visit: Visit, tab: Tab) -> Response {
    if let Err(error) = tab.check() {
        return visit.failed(&error);
    }
    let Some(place) = visit.pages().take(&visit.admin.tenant) else {
        let problem = "too many pages are kept up to date by this brain: this one is not";
        let retry = [(header::RETRY_AFTER, "30")];
        return (StatusCode::SERVICE_UNAVAILABLE, retry, problem).into_response();
    };
    visit.give_up_turn();
    let watch = Watch {
        visit,
        tab,
        sent: Sent::default(),
        pause: Duration::ZERO,
        down: false,
        over: false,
        _place: place,
    };
    let events = stream::unfold(watch, async |mut watch| {
        let event = watch.next().await?;
        Some((Ok::<_, Infallible>(event), watch))
    });
    Sse::new(Box::pin(events)).into_response()
}

/// One page that is kept up to date.
struct Watch {
    visit: Visit,
    tab: Tab,
    sent: Sent,
    pause: Duration,
    down: bool,
    over: bool,
    _place: Place,
}

/// What every event says.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Said<'a> {
    /// The server's time.
    now: Option<&'a str>,
    swept_seconds: Option<u64>,
    /// When the next event comes, in milliseconds.
    next: u128,
    #[serde(skip_serializing_if = "Changes::is_empty")]
    #[serde(flatten)]
    changes: Changes,
}

impl Watch {
    async fn next(&mut self) -> Option<Event> {
        if self.over {
            return None;
        }
        let first = self.pause.is_zero();
        let (stopping, pause) = (self.visit.served.stopping.clone(), self.pause);
        let event = tokio::select! {
            biased;
            () = stopping.cancelled() => return None,
            event = async { sleep(pause).await; self.look().await } => event,
        };
        match first {
            true => Some(event.retry(RETRY)),
            false => Some(event),
        }
    }

    async fn look(&mut self) -> Event {
        match self.visit.admitted().await {
            Ok(_) => {}
            Err(NotAdmitted::Unavailable) => {
                self.pause = SHORTEST;
                return self.cannot(&NotAdmitted::Unavailable);
            }
            Err(_) => return self.last("expired"),
        }
        let turn = self.visit.turns().of_open_page().await;
        let began = Instant::now();
        let read = self.tab.read(&self.visit.insights, &self.visit.here).await;
        drop(turn);
        let took = began.elapsed() * TIMES;
        self.pause = took.clamp(SHORTEST, LONGEST);
        match read {
            Ok(view) => {
                self.down = false;
                self.news(&view)
            }
            // It never comes back.
            Err(InsightsError::NoSuchLease(_)) => self.last("gone"),
            Err(error) => {
                self.pause = took.clamp(SHORTEST, WHEN_DOWN);
                self.cannot(&error)
            }
        }
    }

    /// After this there is nothing more to say.
    fn last(&mut self, kind: &str) -> Event {
        self.over = true;
        self.said(kind, &View::default())
    }

    fn cannot(&mut self, error: &(dyn std::error::Error + 'static)) -> Event {
        if !self.down {
            let error = in_full(error);
            tracing::warn!(error, "an open page cannot be kept up to date");
        }
        self.down = true;
        self.said("down", &View::default())
    }

    /// What is new, or that nothing is.
    fn news(&mut self, view: &View) -> Event {
        let changes = self.sent.changes(view);
        let kind = if changes.is_empty() { "beat" } else { "update" };
        self.event(kind, view, changes)
    }

    fn said(&self, kind: &str, view: &View) -> Event {
        self.event(kind, view, Changes::default())
    }

    fn event(&self, kind: &str, view: &View, changes: Changes) -> Event {
        let said = Said {
            now: view.now.as_deref(),
            swept_seconds: view.swept_seconds,
            next: self.pause.as_millis(),
            changes,
        };
        // Text by text keys: it can be written.
        let said = serde_json::to_string(&said).unwrap_or_else(|_| "{}".to_owned());
        Event::default().event(kind).data(said)
    }
}
