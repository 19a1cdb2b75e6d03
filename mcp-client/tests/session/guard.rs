//! A guard that takes notes, and says what it is told to say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_toolpack::{
    GuardError, GuardFuture, SessionEnd, SessionGuard, SessionLost, SessionPayload,
    SessionUnavailable,
};
use mcp_client::GuardSource;
use tokio::sync::watch;

/// A moment at which a guard is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    Opening,
    Opened,
    Used,
    Closed,
}

/// What it says then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Say {
    Unavailable,
    Lost,
    /// Nothing, until it is told something else.
    Nothing,
    Panic,
}

/// All guards of one connection: the first session's is number 1.
#[derive(Debug, Clone)]
pub(crate) struct Guards(Arc<watch::Sender<()>>, Arc<Mutex<Notes>>);

#[derive(Debug, Default)]
struct Notes {
    count: usize,
    log: Vec<String>,
    payloads: Vec<SessionPayload>,
    says: HashMap<Ask, Say>,
    revoked: Vec<usize>,
}

#[derive(Debug)]
struct Guard {
    number: usize,
    all: Guards,
}

impl Guards {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(())), Arc::default())
    }

    pub(crate) fn source(&self) -> GuardSource {
        let all = self.clone();
        Box::new(move || {
            let mut notes = all.notes();
            notes.count += 1;
            Arc::new(Guard {
                number: notes.count,
                all: all.clone(),
            })
        })
    }

    /// From now on, this is what all say at this moment.
    pub(crate) fn say(&self, ask: Ask, say: Say) {
        self.notes().says.insert(ask, say);
        self.0.send_replace(());
    }

    /// From now on they say that all is well.
    pub(crate) fn agree(&self, ask: Ask) {
        self.notes().says.remove(&ask);
        self.0.send_replace(());
    }

    pub(crate) fn revoke(&self, number: usize) {
        self.notes().revoked.push(number);
        self.0.send_replace(());
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.notes().log.clone()
    }

    /// What a guard was told of its session; the first that was told is number 0.
    pub(crate) fn payload(&self, number: usize) -> SessionPayload {
        self.notes().payloads[number].clone()
    }

    /// Waits until this was noted.
    pub(crate) async fn until(&self, line: &str) {
        let mut changes = self.0.subscribe();
        let noted = tokio::time::timeout(Duration::from_secs(20), async {
            while !self.log().iter().any(|noted| noted == line) {
                let _ = changes.changed().await;
            }
        });
        assert!(
            noted.await.is_ok(),
            "not noted: {line}; noted: {:?}",
            self.log()
        );
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guard {
    fn note(&self, line: &str) {
        self.all.notes().log.push(format!("{} {line}", self.number));
        self.all.0.send_replace(());
    }

    async fn answer(&self, ask: Ask, line: String) -> Result<(), GuardError> {
        self.note(&line);
        let mut changes = self.all.0.subscribe();
        loop {
            let say = self.all.notes().says.get(&ask).copied();
            match say {
                None => return Ok(()),
                Some(Say::Unavailable) => {
                    return Err(SessionUnavailable::new("the store is away").into());
                }
                Some(Say::Lost) => return Err(lost().into()),
                Some(Say::Panic) => panic!("as the test wants it"),
                Some(Say::Nothing) => {
                    let _ = changes.changed().await;
                }
            }
        }
    }
}

fn lost() -> SessionLost {
    SessionLost {
        reason: "an operator".to_owned(),
    }
}

impl SessionGuard for Guard {
    fn opening(&self) -> GuardFuture<'_, Result<(), GuardError>> {
        Box::pin(self.answer(Ask::Opening, "opening".to_owned()))
    }

    fn opened(&self, payload: SessionPayload) -> GuardFuture<'_, Result<(), GuardError>> {
        let field = |name: &str| {
            payload
                .get(name)
                .and_then(|value| value.as_str())
                .unwrap_or("-")
                .to_owned()
        };
        let line = format!("opened {} {}", field("transport"), field("sessionId"));
        self.all.notes().payloads.push(payload);
        Box::pin(self.answer(Ask::Opened, line))
    }

    fn used(&self) -> GuardFuture<'_, Result<(), GuardError>> {
        Box::pin(self.answer(Ask::Used, "used".to_owned()))
    }

    fn revoked(&self) -> GuardFuture<'_, SessionLost> {
        Box::pin(async {
            let mut changes = self.all.0.subscribe();
            while !self.all.notes().revoked.contains(&self.number) {
                let _ = changes.changed().await;
            }
            lost()
        })
    }

    fn closed(&self, end: SessionEnd) -> GuardFuture<'_, ()> {
        let line = match end {
            SessionEnd::Gone => "closed".to_owned(),
            SessionEnd::Unknown(why) => format!("closed, unsure: {why}"),
        };
        Box::pin(async move {
            let _ = self.answer(Ask::Closed, line).await;
        })
    }
}
