//! What the API answers, and the page shows.

use lease_shared::{HolderState, HolderView, PartOf, TenantCounter, Totals};
use serde::Serialize;
use utoipa::ToSchema;

use super::params::Paged;
use super::payload::PayloadField;
use crate::with_pod::WithPod;

/// A page of a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listing<T> {
    /// The server's time at which it was read; nothing if the page is empty.
    pub(crate) now: Option<String>,
    /// How many entries match, on all pages.
    pub(crate) total: u64,
    /// Which page this is; the first is 1.
    pub(crate) page: u32,
    /// How many entries a page has at most.
    pub(crate) per_page: u32,
    /// The entries.
    pub(crate) entries: Vec<T>,
    /// One line for each entry that cannot be read.
    pub(crate) unreadable: Vec<String>,
}

impl<T> Listing<T> {
    pub(super) fn of(part: PartOf<T>, paged: Paged) -> Self {
        Self {
            now: part.now,
            total: part.matching,
            page: paged.page,
            per_page: paged.per_page,
            entries: part.entries,
            unreadable: part.unreadable,
        }
    }

    /// How many pages there are; at least one.
    pub(crate) fn pages(&self) -> u64 {
        self.total.div_ceil(u64::from(self.per_page)).max(1)
    }
}

/// How many leases and counters a tenant has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) totals: Totals,
    pub(crate) counters: u64,
}

/// What stands out among a tenant's leases.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    /// The server's time at which it was read; nothing if there is nothing.
    pub(crate) now: Option<String>,
    /// How many leases there are, by where they stand.
    pub(crate) totals: Totals,
    /// How many counters there are.
    pub(crate) counters: u64,
    /// The counters with the least room.
    pub(crate) fullest: Vec<TenantCounter>,
    /// The leases that have been held the longest.
    pub(crate) oldest: Vec<WithPod>,
    /// Revocations: those that failed, then those that are tried next.
    pub(crate) revoking: Vec<WithPod>,
    /// One line for each entry of these that cannot be read.
    pub(crate) unreadable: Vec<String>,
    /// Seconds since the brain that answers has last swept; nothing if it has not yet.
    pub(crate) last_sweep_seconds: Option<u64>,
}

/// Everything about one lease.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HolderDetail {
    /// The server's time at which it was read.
    pub(crate) now: String,
    /// The lease.
    pub(crate) lease: WithPod,
    /// What a revocation does, or would do, in words.
    pub(crate) on_revocation: String,
    /// What a revocation does not undo by itself, in words.
    pub(crate) may_still_run: String,
    /// What its consumer left for the clean-up; what looks like a secret is hidden.
    pub(crate) payload: Vec<PayloadField>,
    /// What happened to it, and what will, by time.
    pub(crate) moments: Vec<Moment>,
}

/// Something that happened to a lease, or will.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Moment {
    /// When, by the server's clock.
    pub(crate) at: String,
    /// What, in words.
    pub(crate) what: String,
}

impl Moment {
    pub(super) fn of(holder: &HolderView) -> Vec<Self> {
        let mut moments = Vec::new();
        let mut add = |at: &str, what: String| {
            let at = at.to_owned();
            moments.push(Self { at, what });
        };
        add(&holder.created_at, "its acquire began".to_owned());
        if let Some(at) = &holder.acquired_at {
            add(at, "it was acquired".to_owned());
        }
        if holder.beats > 0 {
            let times = match holder.beats {
                1 => "once".to_owned(),
                times => format!("{times} times in all"),
            };
            add(&holder.last_seen_at, format!("it was last used, {times}"));
        }
        if let (Some(at), Some(cleanup)) = (&holder.revoked_at, &holder.cleanup) {
            let mut what = match holder.revocation_reason {
                Some(reason) => format!("it was revoked: {reason}"),
                None => "it was revoked".to_owned(),
            };
            if let Some(by) = &cleanup.by {
                what.push_str(&format!(" ({by})"));
            }
            if let Some(note) = &cleanup.note {
                what.push_str(&format!(", saying: {note}"));
            }
            add(at, what);
            let tries = match cleanup.attempts {
                0 => "its clean-up is to begin".to_owned(),
                1 => "its clean-up is tried again, after one try".to_owned(),
                tries => format!("its clean-up is tried again, after {tries} tries"),
            };
            add(&cleanup.next_try_at, tries);
        } else if holder.state != HolderState::Revoking {
            let what = "it expires, unless it is used before".to_owned();
            add(&holder.expires_at, what);
        }
        // A time that is out of all bounds is not one, and stands first. What falls together stays in order.
        moments.sort_by_key(|moment| moment.at.parse::<jiff::Timestamp>().ok());
        moments
    }
}
