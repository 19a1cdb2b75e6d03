//! The shape of what is stored. Collection and field names that queries use appear here and in the two files beside.

use mongodb::bson::{
    Bson, DateTime, Document, deserialize_from_bson, deserialize_from_document, doc,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::level::{Level, TtlSeconds};
use crate::name::{LeaseToken, LeaseType};
use crate::revocation::RevocationReason;

pub(crate) const COUNTERS: &str = "resource_lease_counters";
pub(crate) const HOLDERS: &str = "resource_lease_holders";

/// How deep documents may stand in one another within a stored one. The server allows several times as much, which a reader
/// that calls itself for each of them has no stack for: one such document would end every process that reads it.
pub(crate) const DEEPEST: usize = 32;

/// How many bytes a payload may have. Whoever ends a lease writes to its document, and one that has no room left for that
/// could be neither revoked nor cleaned up.
const PAYLOAD: usize = 256 * 1024;

/// Can everybody read this payload back, and end the lease that has it? Otherwise, what is wrong with it.
pub(crate) fn check_payload(payload: &Document) -> Result<(), String> {
    if is_deeper(payload, DEEPEST) {
        return Err(format!("is nested more than {DEEPEST} deep"));
    }
    match mongodb::bson::serialize_to_vec(payload) {
        Ok(bytes) if bytes.len() > PAYLOAD => {
            Err(format!("has {} bytes and may have {PAYLOAD}", bytes.len()))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(format!("cannot be stored: {error}")),
    }
}

/// Do documents and lists stand in one another in it more than so many deep?
pub(crate) fn is_deeper(document: &Document, limit: usize) -> bool {
    document.values().any(|value| value_is_deeper(value, limit))
}

fn value_is_deeper(value: &Bson, limit: usize) -> bool {
    let inside = |deeper: &dyn Fn(usize) -> bool| limit == 0 || deeper(limit - 1);
    match value {
        Bson::Document(inner) => inside(&|limit| is_deeper(inner, limit)),
        Bson::JavaScriptCodeWithScope(code) => inside(&|limit| is_deeper(&code.scope, limit)),
        Bson::Array(inner) => {
            inside(&|limit| inner.iter().any(|value| value_is_deeper(value, limit)))
        }
        _ => false,
    }
}

/// Reads a stored document, whatever stands in it; or says what is wrong with it.
pub(crate) fn read<T: DeserializeOwned>(document: Document) -> Result<T, String> {
    if is_deeper(&document, DEEPEST + 1) {
        return Err(format!(
            "documents stand in one another more than {DEEPEST} deep"
        ));
    }
    deserialize_from_document(document).map_err(in_short)
}

/// Of the driver's sentences about its own kinds of errors, what people need.
fn in_short(error: mongodb::bson::error::Error) -> String {
    match (&error.message, &error.key) {
        (Some(message), Some(key)) => format!("{key}: {message}"),
        (Some(message), None) => message.clone(),
        (None, _) => error.to_string(),
    }
}

/// Where a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum HolderState {
    /// Being acquired; nothing is promised yet.
    Pending,
    /// Held: its holder may use the resource as long as a check says so.
    Held,
    /// Taken from its holder; what the resource needs for its end is still to be done.
    Revoking,
}

impl HolderState {
    pub(crate) const ALL: [Self; 3] = [Self::Pending, Self::Held, Self::Revoking];

    /// The state as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Held => "HELD",
            Self::Revoking => "REVOKING",
        }
    }
}

impl From<HolderState> for Bson {
    fn from(state: HolderState) -> Self {
        Self::String(state.as_str().to_owned())
    }
}

/// When the slot of a revoked lease can be booked by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SlotReturn {
    /// Right away: a second user beside the remains of the first does no harm.
    AtOnce,
    /// When the handler is done: the resource is exclusive.
    AfterCleanup,
}

impl SlotReturn {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::AtOnce => "AT_ONCE",
            Self::AfterCleanup => "AFTER_CLEANUP",
        }
    }
}

/// One lease, as stored, and the server's clock at the time of reading.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HolderDoc {
    #[serde(rename = "_id")]
    pub(crate) token: LeaseToken,
    pub(crate) lease: String,
    pub(crate) resource: String,
    #[serde(rename = "type")]
    pub(crate) lease_type: LeaseType,
    pub(crate) state: HolderState,
    pub(crate) levels: Vec<String>,
    pub(crate) tenant_id: String,
    pub(crate) project_id: String,
    pub(crate) user_id: String,
    pub(crate) holder_ref: String,
    pub(crate) pod: Option<String>,
    pub(crate) pod_bound: bool,
    pub(crate) slot_return: SlotReturn,
    pub(crate) payload: Document,
    pub(crate) ttl_seconds: i64,
    pub(crate) created_at: DateTime,
    pub(crate) acquired_at: Option<DateTime>,
    pub(crate) last_seen_at: DateTime,
    pub(crate) beats: i64,
    pub(crate) revocation: Option<RevocationDoc>,
    pub(crate) now: DateTime,
}

/// Why and since when a lease is being revoked, and how far its clean-up is.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevocationDoc {
    pub(crate) reason: RevocationReason,
    pub(crate) at: DateTime,
    /// Who decided it.
    pub(crate) by: Option<String>,
    /// What the operator said.
    pub(crate) note: Option<String>,
    /// How often the clean-up was begun.
    #[serde(default)]
    pub(crate) attempts: i64,
    pub(crate) next_try_at: Option<DateTime>,
    pub(crate) claim: Option<ClaimDoc>,
    pub(crate) last_error: Option<String>,
    #[serde(default)]
    pub(crate) failed: bool,
    #[serde(default)]
    pub(crate) forced: bool,
}

/// Who is cleaning up, and until when nobody else may.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ClaimDoc {
    pub(crate) by: String,
    pub(crate) until: DateTime,
}

impl HolderDoc {
    /// The stored time to live, never more than a definition may say: a document with 68 years would never expire.
    pub(crate) fn ttl_millis(&self) -> i64 {
        self.ttl_seconds.clamp(0, TtlSeconds::MAX.into()) * 1000
    }

    /// Since when it is held, or is being acquired.
    pub(crate) fn since(&self) -> DateTime {
        self.acquired_at.unwrap_or(self.created_at)
    }

    /// Milliseconds since the last use, by the server's clock.
    pub(crate) fn idle_millis(&self) -> i64 {
        millis_between(self.last_seen_at, self.now)
    }

    /// When it may be taken as idle.
    pub(crate) fn expiry(&self) -> DateTime {
        let limit = match self.state {
            HolderState::Pending => self.ttl_millis().min(STALE_PENDING_MILLIS),
            HolderState::Held | HolderState::Revoking => self.ttl_millis(),
        };
        DateTime::from_millis(self.last_seen_at.timestamp_millis().saturating_add(limit))
    }

    /// Milliseconds until it may be taken as idle; negative when that time has come.
    pub(crate) fn millis_to_expiry(&self) -> i64 {
        millis_between(self.now, self.expiry())
    }
}

/// A stored date may be any: those at the ends of time are no reason to fail.
pub(crate) fn millis_between(earlier: DateTime, later: DateTime) -> i64 {
    let later = later.timestamp_millis();
    later.saturating_sub(earlier.timestamp_millis())
}

/// The same as [`HolderDoc::ttl_millis`] in the server's words. What is no number counts as the most that a definition
/// may say, a number below zero (or none at all, as the server calls it) as zero: an absurd one would be an error, and
/// end the query over all the others.
pub(crate) fn ttl_millis() -> Document {
    let at_most = doc! { "$min": ["$ttlSeconds", i64::from(TtlSeconds::MAX)] };
    doc! { "$multiply": [1000, { "$max": [0, at_most] }] }
}

/// A key that is a token. One that is none can be taken by nobody, and must not stand in a list in the place of one that can.
pub(crate) fn is_token() -> Document {
    doc! { "$regex": "^[0-9a-f]{32}$" }
}

/// After this long, or its time to live if that is shorter, an acquire that has not finished never will.
pub(crate) const STALE_PENDING_MILLIS: i64 = 30_000;

/// One counter, as stored. `count` is kept for people; the tokens are what counts.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CounterDoc {
    #[serde(rename = "_id")]
    pub(crate) key: String,
    pub(crate) resource: String,
    pub(crate) level: Level,
    pub(crate) tenant_id: Option<String>,
    pub(crate) project_id: Option<String>,
    pub(crate) user_id: Option<String>,
    pub(crate) lease: String,
    pub(crate) cap: i64,
    pub(crate) count: i64,
    pub(crate) tokens: Vec<String>,
    pub(crate) updated_at: DateTime,
}

/// The condition "last used longer ago than its time to live", in the server's clock.
///
/// For a filter on one document. [`expired_by_ttl`] says the same so that an index can serve it.
pub(crate) fn expired(state: HolderState) -> Document {
    let limit = match state {
        HolderState::Pending => doc! { "$min": [STALE_PENDING_MILLIS, ttl_millis()] },
        HolderState::Held | HolderState::Revoking => ttl_millis(),
    };
    doc! {
        "state": state,
        // A missing date compares as less than any date, and would be taken at once.
        "lastSeenAt": { "$type": "date" },
        "ttlSeconds": { "$type": "number" },
        "$expr": { "$lt": ["$lastSeenAt", { "$subtract": ["$$NOW", limit] }] },
    }
}

/// The condition of [`expired`] for the holders with one of these times to live: one branch each, so that the index on
/// state, ttlSeconds and lastSeenAt is walked over expired entries only. Nothing, if none of them is a number.
pub(crate) fn expired_by_ttl(state: HolderState, ttls: &[Bson]) -> Option<Document> {
    let branches: Vec<Document> = ttls
        .iter()
        .filter_map(|ttl| {
            let seconds = match ttl {
                Bson::Int32(seconds) => f64::from(*seconds),
                Bson::Int64(seconds) => *seconds as f64,
                Bson::Double(seconds) => *seconds,
                _ => return None,
            };
            // What is not a number becomes 0 by the conversion.
            let mut limit = (seconds * 1000.0) as i64;
            limit = limit.clamp(0, 1000 * i64::from(TtlSeconds::MAX));
            if state == HolderState::Pending {
                limit = limit.min(STALE_PENDING_MILLIS);
            }
            Some(doc! {
                "state": state,
                // A list of numbers matches each of them, and is none.
                "ttlSeconds": { "$eq": ttl, "$not": { "$type": "array" } },
                "lastSeenAt": { "$type": "date" },
                "$expr": { "$lt": ["$lastSeenAt", { "$subtract": ["$$NOW", limit] }] },
            })
        })
        .collect();
    (!branches.is_empty()).then(|| doc! { "$or": branches })
}

/// What a holder document says about its token's place in the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It books what it lists, or may be about to.
    Books,
    /// It was revoked, and its slots come back at once.
    Returned,
}

impl HolderDoc {
    /// May a reaper take it when its time has run out? Of those being revoked, only commands are done by then; the others
    /// are their handlers'.
    pub(crate) fn can_be_taken(&self) -> bool {
        self.state != HolderState::Revoking || self.lease_type == LeaseType::command()
    }

    pub(crate) fn standing(&self) -> Standing {
        match (self.state, self.slot_return) {
            (HolderState::Revoking, SlotReturn::AtOnce) => Standing::Returned,
            _ => Standing::Books,
        }
    }
}

/// A holder as a reconcile sees it.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) standing: Standing,
    /// The counters it says it books.
    pub(crate) keys: Vec<String>,
    /// Why it can be neither used nor reaped.
    pub(crate) broken: Option<&'static str>,
}

impl Claim {
    /// What of a holder its reaper relies on.
    pub(crate) fn fields() -> Document {
        doc! { "state": 1, "slotReturn": 1, "levels": 1, "ttlSeconds": 1, "lastSeenAt": 1 }
    }

    fn fault(holder: &Document) -> Option<&'static str> {
        let state = holder.get("state").cloned().unwrap_or_default();
        let ttl = holder.get("ttlSeconds");
        if deserialize_from_bson::<HolderState>(state).is_err() {
            Some("state is none of PENDING, HELD and REVOKING")
        } else if holder.get_array("levels").is_err() {
            Some("levels is no list")
        } else if !matches!(ttl, Some(Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_))) {
            Some("ttlSeconds is no number")
        } else if holder.get_datetime("lastSeenAt").is_err() {
            Some("lastSeenAt is no date")
        } else {
            None
        }
    }

    /// Reads what is needed of a holder that may be broken otherwise.
    pub(crate) fn of(holder: &Document) -> Self {
        let is = |field, value| holder.get_str(field).is_ok_and(|text| text == value);
        let returned = is("state", HolderState::Revoking.as_str())
            && is("slotReturn", SlotReturn::AtOnce.as_str());
        Self {
            standing: if returned {
                Standing::Returned
            } else {
                Standing::Books
            },
            keys: texts(holder, "levels"),
            broken: Self::fault(holder),
        }
    }
}

/// The texts in an array field.
pub(crate) fn texts(document: &Document, field: &str) -> Vec<String> {
    let values = document
        .get_array(field)
        .map(Vec::as_slice)
        .unwrap_or_default();
    values
        .iter()
        .filter_map(Bson::as_str)
        .map(str::to_owned)
        .collect()
}

/// May a token be taken out of a counter? Only if its holder is gone, or its slot is to come back at once.
pub(crate) fn is_orphan(holder: Option<Standing>) -> bool {
    matches!(holder, None | Some(Standing::Returned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_without_going_deeper() {
        let nested = |depth: usize| {
            let mut inner = doc! {};
            for _ in 1..depth {
                inner = doc! { "in": [inner] };
            }
            inner
        };
        // A list counts as well.
        for (depth, limit, deeper) in [
            (1, 0, false),
            (2, 2, false),
            (2, 1, true),
            (17, 32, false),
            (18, 32, true),
        ] {
            assert_eq!(is_deeper(&nested(depth), limit), deeper, "{depth} {limit}");
        }
        assert!(read::<Document>(nested(5000)).is_err());
    }

    #[test]
    fn only_a_token_without_a_claim_is_an_orphan() {
        assert!(is_orphan(None));
        assert!(is_orphan(Some(Standing::Returned)));
        assert!(!is_orphan(Some(Standing::Books)));
    }
}
