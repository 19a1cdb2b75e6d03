//! Leases whose documents cannot be read: what of them can be shown, so that somebody can end them.

use mongodb::bson::{Bson, DateTime, Document, deserialize_from_bson};
use serde::Serialize;

use super::{CleanupPhase, Filter, HolderView, LeaseViews, Listed, whole_seconds};
use crate::name::LeaseToken;
use crate::store::documents::{HolderDoc, HolderState, millis_between, texts};
use crate::store::holders::read;
use crate::store::{StoreError, deadline};

/// How much of a text that may be anything is shown.
const SHOWN: usize = 500;

/// One lease, whatever stands in its document.
#[derive(Debug, Clone)]
pub enum AnyLease {
    /// It can be read.
    Whole(Box<HolderView>),
    /// It cannot.
    Broken(Box<BrokenLease>),
}

/// What can be read of a lease whose document is broken. Nothing: that cannot be read either.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokenLease {
    /// Its identity.
    pub token: LeaseToken,
    /// Why it cannot be read.
    pub unreadable: String,
    /// The resource.
    pub resource: Option<String>,
    /// Its lease type.
    #[serde(rename = "type")]
    pub lease_type: Option<String>,
    /// Where it stands.
    pub state: Option<HolderState>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The pod that holds it.
    pub pod: Option<String>,
    /// The counters it books.
    pub levels: Vec<String>,
    /// Why it is being revoked, as it is stored.
    pub revocation_reason: Option<String>,
    /// How far its clean-up is, if it is being revoked.
    pub cleanup: Option<BrokenCleanup>,
}

/// How far the clean-up behind a broken document is.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokenCleanup {
    /// Failed once a pod has tried to read it; waiting before.
    pub phase: CleanupPhase,
    /// How often it was begun.
    pub attempts: Option<i64>,
    /// Seconds until it is begun again.
    pub next_try_in_seconds: Option<i64>,
    /// What the last who tried said.
    pub last_error: Option<String>,
}

impl LeaseViews {
    /// The leases that match, in any state, with those whose documents are broken. Unreadable are those that not even a
    /// token names.
    pub async fn any_holders(&self, filter: &Filter) -> Result<Listed<AnyLease>, StoreError> {
        let filter = filter.of_holders();
        let stored = self.store.stored_holders(filter, deadline()).await?;
        let mut listed = Listed {
            entries: Vec::new(),
            unreadable: Vec::new(),
        };
        for holder in stored {
            match AnyLease::of(holder) {
                Ok(lease) => listed.entries.push(lease),
                Err(problem) => listed.unreadable.push(problem),
            }
        }
        Ok(listed)
    }

    /// One lease, in any state, whatever stands in its document.
    pub async fn any_holder(&self, token: &LeaseToken) -> Result<Option<AnyLease>, StoreError> {
        let filter = mongodb::bson::doc! { "_id": token.as_str() };
        let stored = self.store.stored_holders(filter, deadline()).await?;
        // What was found by a token has one.
        Ok(stored.into_iter().find_map(|it| AnyLease::of(it).ok()))
    }
}

impl AnyLease {
    /// The lease; or, if not even its token can be read, one line that says so.
    fn of(stored: Document) -> Result<Self, String> {
        let broken = BrokenLease::of(&stored);
        match (read(stored), broken) {
            (Ok(holder), _) => Ok(Self::from(holder)),
            (Err(problem), Ok(mut broken)) => {
                broken.unreadable = problem;
                Ok(Self::Broken(Box::new(broken)))
            }
            (Err(problem), Err(id)) => Err(format!("holder {id}: {problem}")),
        }
    }
}

impl From<HolderDoc> for AnyLease {
    fn from(holder: HolderDoc) -> Self {
        Self::Whole(Box::new(holder.into()))
    }
}

impl BrokenLease {
    /// What can be read without the rest, or the key in the place of a token.
    fn of(stored: &Document) -> Result<Self, String> {
        let id = stored.get("_id").cloned().unwrap_or_default();
        let text = |field: &str| Some(shown(stored.get_str(field).ok()?));
        let state = stored.get("state").cloned().unwrap_or_default();
        let state = deserialize_from_bson(state).ok();
        let revocation = stored.get_document("revocation").ok();
        let reason = revocation.and_then(|it| it.get_str("reason").ok());
        Ok(Self {
            token: deserialize_from_bson(id.clone()).map_err(|_| shown(&id.to_string()))?,
            unreadable: String::new(),
            resource: text("resource"),
            lease_type: text("type"),
            state,
            tenant: text("tenantId"),
            project: text("projectId"),
            user: text("userId"),
            pod: text("pod"),
            levels: texts(stored, "levels"),
            revocation_reason: reason.map(shown),
            cleanup: (state == Some(HolderState::Revoking))
                .then(|| BrokenCleanup::of(revocation, stored.get_datetime("now").ok())),
        })
    }
}

impl BrokenCleanup {
    fn of(revocation: Option<&Document>, now: Option<&DateTime>) -> Self {
        let field = |name: &str| revocation?.get(name);
        let next = field("nextTryAt").and_then(Bson::as_datetime);
        Self {
            phase: match field("failed").and_then(Bson::as_bool) {
                Some(true) => CleanupPhase::Failed,
                _ => CleanupPhase::Waiting,
            },
            attempts: field("attempts").and_then(|attempts| match attempts {
                Bson::Int32(count) => Some(i64::from(*count)),
                Bson::Int64(count) => Some(*count),
                _ => None,
            }),
            next_try_in_seconds: now
                .zip(next)
                .map(|(now, next)| whole_seconds(millis_between(*now, *next))),
            last_error: field("lastError").and_then(Bson::as_str).map(shown),
        }
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
