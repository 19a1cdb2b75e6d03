//! Errors, split by what the caller can do next. Each carries a stable word.

use std::fmt;
use std::time::Duration;

use humantime::{FormattedDuration, format_duration};

use crate::definition::{DocumentError, DocumentStoreError};
use crate::level::Level;
use crate::name::{InvalidName, LeaseName, LeaseToken, LeaseType, Resource};
use crate::revocation::RevocationReason;
use crate::scope::{Scope, Tenancy};
use crate::store::StoreError;

/// An error and its causes in one line, for logs and for what is stored.
pub fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

/// Why an acquire gave no lease. Nothing is held and nothing stays booked.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// A level was full for as long as the caller wanted to wait. Try later.
    #[error("{0}")]
    Busy(Box<Busy>),
    /// The store, or a definition in it, could not be relied on. The resource must not be used unprotected. Try again
    /// when the cause, which is the error's source, is mended.
    #[error("no lease can be given now")]
    Unavailable(#[source] Unavailable),
    /// No layer defines the lease. The name is wrong, or its document is missing.
    #[error(
        "no lease `{name}` is defined for {tenant}/{project}: check the name, or write _vance/config/lease/{name}.yaml \
         in the system, tenant or project layer"
    )]
    Undefined {
        /// The name asked for.
        name: LeaseName,
        /// The holder's tenant.
        tenant: String,
        /// The holder's project.
        project: String,
    },
    /// The request can never succeed as it is.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The service was not built with this lease type, so nobody would clean up after it.
    #[error(
        "lease type `{0}` is not known to this process: name it where the lease service is built"
    )]
    UnknownType(LeaseType),
}

impl AcquireError {
    /// The stable word for this outcome.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Busy(_) => "LEASE_BUSY",
            Self::Unavailable(_) => "LEASE_UNAVAILABLE",
            Self::Undefined { .. } => "LEASE_UNDEFINED",
            Self::Invalid(_) => "LEASE_INVALID",
            Self::UnknownType(_) => "LEASE_TYPE_UNKNOWN",
        }
    }
}

/// What the answer [`AcquireError::Unavailable`] is due to.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The store did not answer, or not with certainty.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A definition document is broken. Until it is mended nobody gets this lease: it might hold the very cap that
    /// protects the resource.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The definition documents could not be read.
    #[error(transparent)]
    Documents(#[from] DocumentStoreError),
    /// The acquire took longer than its own time to live, and a reaper took it for dead.
    #[error("the lease was reaped before its acquire had finished")]
    Reaped,
    /// The process is shutting down.
    #[error("the process is ending")]
    Ending,
}

/// A request that can never succeed as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// A name breaks its rule.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The wait is longer than any may be. It is refused, for a wait that is cut in silence ends too early.
    #[error("a wait of {} is longer than the longest allowed, one day (86400 s)", format_duration(*.0))]
    WaitTooLong(Duration),
    /// A resource that dies with its pod needs a pod.
    #[error("the request is pod-bound but names no pod")]
    PodMissing,
    /// Its payload is larger, or deeper, than everybody can read back and clean up.
    #[error("the payload {0}")]
    Payload(String),
}

/// The diagnosis of a full level.
#[derive(Debug, Clone)]
pub struct Busy {
    /// The resource whose counter is full.
    pub resource: Resource,
    /// The level that is full.
    pub level: Level,
    /// Whose slots they are.
    pub scope: Scope,
    /// How many slots are booked.
    pub in_use: usize,
    /// How many there are.
    pub cap: u16,
    /// How many of these are of leases whose documents are broken, so that they never expire by themselves.
    pub broken: usize,
    /// How many of these are of revoked leases: nobody holds them, and they come back when their clean-ups are done.
    pub awaiting_cleanup: usize,
    /// Why one of these clean-ups did not succeed yet, if it is of the caller's own tenant.
    pub cleanup_error: Option<String>,
    /// Who has held one for the longest, as far as it is known.
    pub oldest: Option<OldestHolder>,
    /// How long the caller waited.
    pub waited: Duration,
}

/// The holder that a busy caller waits for first.
#[derive(Debug, Clone)]
pub struct OldestHolder {
    /// How long it has held its lease.
    pub held_for: Duration,
    /// Who it is, if it is of the caller's own tenant: a shared ceiling is no window into others.
    pub identity: Option<HolderIdentity>,
}

/// Who holds a lease.
#[derive(Debug, Clone)]
pub struct HolderIdentity {
    /// The lease.
    pub token: LeaseToken,
    /// The consumer's own id for its holder.
    pub holder_ref: String,
    /// Whose lease it is.
    pub tenancy: Tenancy,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            resource,
            level,
            in_use,
            cap,
            ..
        } = self;
        write!(
            f,
            "{resource} is busy: {in_use} of {cap} in use at level {level}"
        )?;
        if self.scope != Scope::Global {
            write!(f, " ({})", self.scope)?;
        }
        if self.awaiting_cleanup > 0 {
            let waiting = self.awaiting_cleanup;
            write!(f, "; {waiting} of these await their clean-up")?;
            if let Some(error) = &self.cleanup_error {
                write!(f, ", last error: {error}")?;
            }
        }
        if self.broken > 0 {
            let broken = self.broken;
            write!(
                f,
                "; broken documents among these, which never expire: {broken} (`lease reconcile --dry-run` names them)"
            )?;
        }
        if let Some(oldest) = &self.oldest {
            let held_for = Duration::from_secs(oldest.held_for.as_secs());
            write!(
                f,
                "; the oldest holder has had it for {}",
                format_duration(held_for)
            )?;
            if let Some(HolderIdentity {
                holder_ref,
                tenancy,
                ..
            }) = &oldest.identity
            {
                write!(f, ": {holder_ref} ({tenancy})")?;
            }
        }
        if !self.waited.is_zero() {
            write!(f, "; waited {}", in_millis(self.waited))?;
        }
        Ok(())
    }
}

/// Nobody needs the nanoseconds.
fn in_millis(duration: Duration) -> FormattedDuration {
    format_duration(Duration::from_millis(
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
    ))
}

/// Why a check did not say "still yours". The two must never be treated alike.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The lease is gone. Stop using the resource now; acquire anew to go on.
    #[error("{0}")]
    Lost(Lost),
    /// The store could not be asked. The lease may still be held: check again within its time to live, counted from
    /// the last check that succeeded.
    #[error("the lease could not be checked")]
    Unavailable(#[source] StoreError),
}

impl CheckError {
    /// The stable word for this outcome.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Lost(_) => "LEASE_LOST",
            Self::Unavailable(_) => "LEASE_UNAVAILABLE",
        }
    }
}

/// What is known of a lease that is lost.
#[derive(Debug, Clone)]
pub struct Lost {
    /// The lease.
    pub token: LeaseToken,
    /// Why it was taken; nothing if its document is gone by now, after a release or a finished revocation.
    pub reason: Option<RevocationReason>,
    /// How long ago it was last used, if that is known.
    pub last_seen: Option<Duration>,
    /// Its time to live, if that is known.
    pub ttl: Option<Duration>,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease {} is lost: ", self.token)?;
        match self.reason {
            Some(reason) => write!(f, "{reason}")?,
            None => f.write_str("it is not held any more; released, or reaped and cleaned up")?,
        }
        if let Some(last_seen) = self.last_seen {
            write!(f, "; last seen {} ago", in_millis(last_seen))?;
        }
        if let Some(ttl) = self.ttl {
            write!(f, ", time to live {}", format_duration(ttl))?;
        }
        Ok(())
    }
}
