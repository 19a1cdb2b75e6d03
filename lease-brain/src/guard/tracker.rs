//! Which leases guard a session in this process, so that a revocation reaches the session it is about and no other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lease_shared::{LeaseToken, Revocation};
use lease_toolpack::{SessionEnd, SessionLost};
use tokio::sync::watch;

/// The guarded sessions of this process, by lease. A session that has ended leaves nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tracker(Arc<Mutex<HashMap<LeaseToken, Weak<Tracked>>>>);

/// A guarded session.
#[derive(Debug)]
pub(crate) struct Tracked {
    token: LeaseToken,
    tracker: Tracker,
    /// Why it has to end.
    revoked: watch::Sender<Option<SessionLost>>,
    /// How it ended.
    ended: watch::Sender<Option<SessionEnd>>,
}

/// How a session ended that was told to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// So it was said.
    Closed(SessionEnd),
    /// Nobody said how: what guarded it is gone.
    Dropped,
}

impl Tracker {
    pub(super) fn register(&self, token: &LeaseToken) -> Arc<Tracked> {
        let tracked = Arc::new(Tracked {
            token: token.clone(),
            tracker: self.clone(),
            revoked: watch::Sender::new(None),
            ended: watch::Sender::new(None),
        });
        self.lock().insert(token.clone(), Arc::downgrade(&tracked));
        tracked
    }

    /// Has the session under that lease end, and waits until it has. Nothing if none in this process is: a revocation
    /// that comes late ends no session that was opened since.
    pub(crate) async fn end(&self, revocation: &Revocation) -> Option<Ended> {
        // Not kept over the wait: a guard that is dropped without a word ends the wait.
        let mut ended = {
            let tracked = self.lock().get(&revocation.token)?.upgrade()?;
            let reason = revocation.reason.to_string();
            tracked.revoke(SessionLost { reason });
            tracked.ended.subscribe()
        };
        let end = ended.wait_for(Option::is_some).await;
        Some(match end.ok().and_then(|end| end.clone()) {
            Some(end) => Ended::Closed(end),
            None => Ended::Dropped,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<LeaseToken, Weak<Tracked>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tracked {
    pub(super) async fn revoked(&self) -> SessionLost {
        let mut revoked = self.revoked.subscribe();
        // The sender is in `self`, so it is there.
        match revoked
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|lost| lost.clone())
        {
            Some(lost) => lost,
            None => forever().await,
        }
    }

    /// Has it end. The first reason stands.
    pub(super) fn revoke(&self, why: SessionLost) {
        self.revoked.send_if_modified(|lost| {
            let first = lost.is_none();
            lost.get_or_insert(why);
            first
        });
    }

    pub(super) fn ended(&self, end: SessionEnd) {
        self.ended.send_replace(Some(end));
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.tracker.lock().remove(&self.token);
    }
}

pub(super) async fn forever<T>() -> T {
    std::future::pending().await
}

#[cfg(test)]
mod tests;
