//! A guard that writes down what it is told, and does as it was told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lease_toolpack::{
    GuardError, GuardFuture, SessionEnd, SessionGuard, SessionLost, SessionPayload,
    SessionUnavailable,
};
use tokio::sync::watch;

/// What happened in which order, at the guard and at the service.
#[derive(Debug, Clone)]
pub(crate) struct Events(watch::Sender<Vec<String>>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Vec::new()))
    }

    pub(crate) fn add(&self, event: impl Into<String>) {
        self.0.send_modify(|it| it.push(event.into()));
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// Waits until one begins with `event`.
    pub(crate) async fn wait(&self, event: &str) {
        let mut all = self.0.subscribe();
        let there = all.wait_for(|it| it.iter().any(|it| it.starts_with(event)));
        let there = tokio::time::timeout(Duration::from_secs(30), there).await;
        assert!(there.is_ok(), "no {event} in {:?}", self.all());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    Lost,
    Unavailable,
    Panic,
}

#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) events: Events,
    pub(crate) opening: Answer,
    pub(crate) opened: Answer,
    /// What the first, second, … use is answered with; then Yes.
    pub(crate) uses: Mutex<Vec<Answer>>,
    pub(crate) revoke: watch::Sender<bool>,
}

impl Guard {
    pub(crate) fn new() -> Self {
        Self {
            events: Events::new(),
            opening: Answer::Yes,
            opened: Answer::Yes,
            uses: Mutex::default(),
            revoke: watch::Sender::new(false),
        }
    }

    pub(crate) fn yes() -> Arc<Self> {
        Arc::new(Self::new())
    }

    pub(crate) fn with_uses(uses: &[Answer]) -> Arc<Self> {
        let mut guard = Self::new();
        guard.uses = Mutex::new(uses.iter().rev().copied().collect());
        Arc::new(guard)
    }

    fn tell(&self, event: String, answer: Answer) -> GuardFuture<'_, Result<(), GuardError>> {
        self.events.add(event);
        Box::pin(async move {
            match answer {
                Answer::Yes => Ok(()),
                Answer::Lost => Err(lost("idle").into()),
                Answer::Unavailable => Err(SessionUnavailable::new("the store is away").into()),
                Answer::Panic => panic!("the guard panics"),
            }
        })
    }
}

fn lost(reason: &str) -> SessionLost {
    let reason = reason.to_owned();
    SessionLost { reason }
}

impl SessionGuard for Guard {
    fn opening(&self) -> GuardFuture<'_, Result<(), GuardError>> {
        self.tell("opening".into(), self.opening)
    }

    fn opened(&self, payload: SessionPayload) -> GuardFuture<'_, Result<(), GuardError>> {
        let keys: Vec<_> = payload.keys().cloned().collect();
        assert_eq!(keys, ["jobId"]);
        self.tell(
            format!("opened {}", payload["jobId"].as_str().unwrap()),
            self.opened,
        )
    }

    fn used(&self) -> GuardFuture<'_, Result<(), GuardError>> {
        let answer = self.uses.lock().unwrap().pop().unwrap_or(Answer::Yes);
        self.tell("used".into(), answer)
    }

    fn revoked(&self) -> GuardFuture<'_, SessionLost> {
        let mut revoked = self.revoke.subscribe();
        Box::pin(async move {
            revoked.wait_for(|it| *it).await.unwrap();
            lost("by an operator")
        })
    }

    fn closed(&self, end: SessionEnd) -> GuardFuture<'_, ()> {
        self.events.add(format!("closed {end:?}"));
        Box::pin(async {})
    }
}
