//! A tool's session under a lease: what `lease_toolpack` asks, answered by `lease_shared`.

mod tracker;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lease_shared::{CheckError, Lease, LeaseRequest, LeaseService, in_full};
use lease_toolpack::{
    GuardError, GuardFuture, SessionEnd, SessionGuard, SessionLost, SessionPayload,
    SessionUnavailable,
};
use mongodb::bson::{Document, serialize_to_document};
use tokio::time::sleep;

pub(crate) use tracker::{Ended, Tracker};
use tracker::{Tracked, forever};

/// How often it is looked whether there is a lease by now that could be kept.
pub(crate) const UNGUARDED: Duration = Duration::from_millis(250);

/// Stands before one session: acquires before it is opened, checks before each use, releases when it has ended.
pub(crate) struct LeaseSessionGuard {
    leases: LeaseService,
    request: LeaseRequest,
    /// What the payload says besides what the tool knows of its session.
    base: Document,
    tracker: Tracker,
    session: Mutex<Session>,
}

/// Where the session is in its life.
#[derive(Debug, Clone)]
enum Session {
    NotOpened,
    Guarded {
        lease: Arc<Lease>,
        /// Nothing for a NOOP, which nobody can revoke.
        tracked: Option<Arc<Tracked>>,
    },
    Closed,
}

/// What holds a session now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// There is none.
    Nothing,
    /// A lease, which expires from last use.
    Lease,
    /// Nothing limits it, so nothing ends it either.
    Noop,
}

impl fmt::Debug for LeaseSessionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseSessionGuard")
            .field("session", &self.session())
            .finish_non_exhaustive()
    }
}

impl LeaseSessionGuard {
    /// A guard that acquires by `request`, whose payload every later one contains.
    pub(crate) fn new(
        leases: LeaseService,
        request: LeaseRequest,
        base: Document,
        tracker: Tracker,
    ) -> Self {
        Self {
            leases,
            request,
            base,
            tracker,
            session: Mutex::new(Session::NotOpened),
        }
    }

    pub(crate) fn holds(&self) -> Holds {
        match self.session() {
            Session::NotOpened | Session::Closed => Holds::Nothing,
            Session::Guarded { lease, .. } if lease.is_noop() => Holds::Noop,
            Session::Guarded { .. } => Holds::Lease,
        }
    }

    /// Checks the lease after a third of its time to live, if there is one. A lease that turns out to be lost ends the
    /// session.
    pub(crate) async fn check_in_use(&self) {
        let Session::Guarded {
            lease,
            tracked: Some(tracked),
        } = self.session()
        else {
            return sleep(UNGUARDED).await;
        };
        sleep(lease.ttl().map_or(UNGUARDED, |ttl| ttl / 3)).await;
        if let Err(CheckError::Lost(lost)) = lease.check().await {
            let reason = lost.to_string();
            tracked.revoke(SessionLost { reason });
        }
    }

    fn session(&self) -> Session {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease(&self) -> Result<Arc<Lease>, GuardError> {
        match self.session() {
            Session::Guarded { lease, .. } => Ok(lease),
            Session::NotOpened | Session::Closed => Err(unavailable("the session is not open")),
        }
    }
}

fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> GuardError {
    SessionUnavailable::new(error).into()
}

fn refused(error: CheckError) -> GuardError {
    match error {
        CheckError::Lost(lost) => {
            let reason = lost.to_string();
            SessionLost { reason }.into()
        }
        unknown @ CheckError::Unavailable(_) => unavailable(unknown),
    }
}

impl SessionGuard for LeaseSessionGuard {
    fn opening(&self) -> GuardFuture<'_, Result<(), GuardError>> {
        Box::pin(async {
            let lease = self.leases.acquire(self.request.clone()).await;
            let lease = Arc::new(lease.map_err(unavailable)?);
            let tracked = lease.token().map(|token| self.tracker.register(token));
            // A revocation from before it was registered is found by `opened`.
            *self.lock() = Session::Guarded { lease, tracked };
            Ok(())
        })
    }

    fn opened(&self, payload: SessionPayload) -> GuardFuture<'_, Result<(), GuardError>> {
        Box::pin(async move {
            let mut whole = self.base.clone();
            whole.extend(serialize_to_document(&payload).map_err(unavailable)?);
            self.lease()?.update_payload(whole).await.map_err(refused)
        })
    }

    fn used(&self) -> GuardFuture<'_, Result<(), GuardError>> {
        Box::pin(async { self.lease()?.check().await.map_err(refused) })
    }

    fn revoked(&self) -> GuardFuture<'_, SessionLost> {
        Box::pin(async {
            match self.session() {
                Session::Guarded {
                    tracked: Some(tracked),
                    ..
                } => tracked.revoked().await,
                _ => forever().await,
            }
        })
    }

    fn closed(&self, end: SessionEnd) -> GuardFuture<'_, ()> {
        Box::pin(async {
            let before = std::mem::replace(&mut *self.lock(), Session::Closed);
            let Session::Guarded { lease, tracked } = before else {
                return;
            };
            if let SessionEnd::Unknown(problem) = &end {
                tracing::warn!(
                    lease.token = lease.token().map(tracing::field::display),
                    problem,
                    "a session was closed, but it may go on where it runs"
                );
            }
            // First, for a handler waits for it, and the store may be slow.
            if let Some(tracked) = tracked {
                tracked.ended(end);
            }
            if let Err(error) = lease.release().await {
                tracing::warn!(
                    lease.token = lease.token().map(tracing::field::display),
                    error = in_full(&error),
                    "could not give the lease of a closed session back; its time to live ends it"
                );
            }
        })
    }
}
