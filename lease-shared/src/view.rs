//! What people see of holders and counters, defined once for the command line, the API and the page.

pub(crate) mod broken;
pub(crate) mod tenant;

use std::collections::HashMap;

use mongodb::Database;
use mongodb::bson::{DateTime, Document, doc};
use serde::Serialize;

use crate::definition::LeaseDefinition;
use crate::funnel::Funnel;
use crate::level::Level;
use crate::name::{InvalidName, LeaseToken, LeaseType, PodId, Resource};
use crate::revocation::{RevocationReason, SlotReturn};
use crate::scope::Tenancy;
use crate::store::documents::{CounterDoc, HolderDoc, HolderState, Standing, millis_between};
use crate::store::{LeaseStore, Read, StoreError, deadline};
use tenant::TenantViews;

/// Reads holders and counters for people. Changes nothing.
#[derive(Debug, Clone)]
pub struct LeaseViews {
    store: LeaseStore,
}

/// Which holders or counters to show. What is absent does not filter.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Of this project; tenants may have projects of the same name.
    pub project: Option<String>,
    /// Of this user.
    pub user: Option<String>,
    /// On this resource.
    pub resource: Option<String>,
    /// Held by this pod.
    pub pod: Option<PodId>,
    /// Of this lease type.
    pub lease_type: Option<String>,
    /// In this state.
    pub state: Option<HolderState>,
}

/// Entries, and what could not be read as one.
#[derive(Debug, Clone)]
pub struct Listed<T> {
    /// Those that could be read.
    pub entries: Vec<T>,
    /// One line for each that could not.
    pub unreadable: Vec<String>,
}

/// One lease as people see it. Times are the server's.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HolderView {
    /// Its identity.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub token: LeaseToken,
    /// The definition it was acquired under.
    pub lease: String,
    /// The resource.
    pub resource: String,
    /// Its lease type.
    #[serde(rename = "type")]
    pub lease_type: String,
    /// Where it stands.
    pub state: HolderState,
    /// The tenant.
    pub tenant: String,
    /// The project.
    pub project: String,
    /// The user.
    pub user: String,
    /// The consumer's own id.
    pub holder_ref: String,
    /// The pod that holds it.
    pub pod: Option<String>,
    /// Does its resource die with that pod?
    pub pod_bound: bool,
    /// When its slots come back after a revocation.
    pub slot_return: SlotReturn,
    /// The counters it books.
    pub levels: Vec<String>,
    /// How long it lives after its last use.
    pub ttl_seconds: i64,
    /// When its acquire began.
    pub created_at: String,
    /// Since when it is held.
    pub acquired_at: Option<String>,
    /// When it was last used.
    pub last_seen_at: String,
    /// Seconds since it began to be held, or to be acquired.
    pub age_seconds: i64,
    /// When it may be reaped, unless it is used before.
    pub expires_at: String,
    /// Seconds until then; 0 when that time has come.
    pub expires_in_seconds: i64,
    /// How often it was used.
    pub beats: i64,
    /// The names in its payload. The values may mean something to others.
    pub payload_keys: Vec<String>,
    /// Why it is being revoked.
    pub revocation_reason: Option<RevocationReason>,
    /// Since when.
    pub revoked_at: Option<String>,
    /// How far its clean-up is.
    pub cleanup: Option<CleanupView>,
}

/// How far the clean-up of a revoked lease is.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CleanupView {
    /// What is going on.
    pub phase: CleanupPhase,
    /// Who decided it, if that is known.
    pub by: Option<String>,
    /// What the operator who revoked it said.
    pub note: Option<String>,
    /// How often it was begun.
    pub attempts: i64,
    /// When it is begun again, if it waits.
    pub next_try_at: String,
    /// Seconds until then; 0 when that time has come.
    pub next_try_in_seconds: i64,
    /// Has it been due for a minute without anybody beginning it? Then no pod that looks for work has its handler.
    #[serde(skip)]
    pub nobody_begins: bool,
    /// The pod that works on it.
    pub claimed_by: Option<String>,
    /// Why the last try did not succeed.
    pub last_error: Option<String>,
    /// Were the slots given back at once by force, whatever still ran?
    pub forced: bool,
}

/// Where a clean-up stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum CleanupPhase {
    /// Its holder cannot be reached; it waits until that has ended or its time is over.
    HolderEnding,
    /// It is to be begun, or tried again.
    Waiting,
    /// A pod works on it.
    Running,
    /// It did not succeed ten times, or cannot be begun. It is tried hourly, and an operator should look.
    Failed,
}

impl CleanupPhase {
    /// The phase in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HolderEnding => "waits for the holder's end",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Failed => "failed",
        }
    }
}

/// A pod that can begin a clean-up does so within seconds.
const NOBODY_AFTER_MILLIS: i64 = 60_000;

impl CleanupView {
    fn of(holder: &HolderDoc) -> Option<Self> {
        let revocation = holder.revocation.as_ref()?;
        let claim = revocation.claim.as_ref();
        let claim = claim.filter(|claim| claim.until > holder.now);
        let next = revocation.next_try_at.unwrap_or(holder.now);
        let next = match holder.lease_type == LeaseType::command() {
            true => holder.expiry(),
            false => next,
        };
        let millis = millis_between(holder.now, next);
        let has_handler = holder.lease_type != LeaseType::command();
        let out_of_reach = holder.pod.is_none() && holder.slot_return == SlotReturn::AfterCleanup;
        Some(Self {
            phase: if revocation.failed {
                CleanupPhase::Failed
            } else if claim.is_some() {
                CleanupPhase::Running
            } else if revocation.attempts == 0 && out_of_reach && millis > 0 {
                CleanupPhase::HolderEnding
            } else {
                CleanupPhase::Waiting
            },
            by: revocation.by.clone(),
            note: revocation.note.clone(),
            attempts: revocation.attempts,
            next_try_at: text(next),
            next_try_in_seconds: whole_seconds(millis),
            nobody_begins: has_handler && claim.is_none() && millis < -NOBODY_AFTER_MILLIS,
            claimed_by: claim.map(|claim| claim.by.clone()),
            last_error: revocation.last_error.clone(),
            forced: revocation.forced,
        })
    }
}

/// How many leases there are, by where they stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Being acquired.
    pub pending: u64,
    /// Held.
    pub held: u64,
    /// Being revoked, those that failed not counted.
    pub revoking: u64,
    /// Being revoked, their clean-up marked as failed.
    pub failed: u64,
}

/// One counter as people see it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CounterView {
    /// Its key.
    pub key: String,
    /// The resource it counts.
    pub resource: String,
    /// The level.
    pub level: Level,
    /// The tenant, unless global.
    pub tenant: Option<String>,
    /// The project, at that level.
    pub project: Option<String>,
    /// The user, at that level.
    pub user: Option<String>,
    /// The definition of the last booking.
    pub lease: String,
    /// The cap that the last booking saw.
    pub cap: i64,
    /// The tokens it lists: the slots in use.
    pub count: i64,
    /// The holders that say they book it.
    pub booked: i64,
    /// How many of these are of revoked leases: nobody uses them, and they come back when their clean-ups are done.
    pub awaiting_cleanup: i64,
    /// How many of these clean-ups are marked as failed: they are tried hourly, and an operator should look.
    pub failed: i64,
    /// What its field of that name says of `count`. It decides nothing; other than `count`, it was not written by a booking.
    pub count_field: i64,
    /// `count` minus `booked`. Other than 0: an acquire or a release is under way, or `lease reconcile` has work.
    pub drift: i64,
    /// Leases in its scope that do not book it: they were acquired before the level had a cap. They are not counted.
    pub unbooked: i64,
    /// When it last changed.
    pub updated_at: String,
}

/// How far one capped level of a definition is used, in one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelUse {
    /// The level.
    pub level: Level,
    /// Leases that are held in its scope, or keep their slots until they are cleaned up.
    pub held: i64,
    /// How many of these do not book it: they were acquired before it had a cap, and are not counted against it.
    pub unbooked: i64,
}

impl LeaseViews {
    /// Views on a database, without a service.
    pub fn new(database: Database) -> Self {
        Self::of(LeaseStore::new(database))
    }

    pub(crate) fn of(store: LeaseStore) -> Self {
        Self { store }
    }

    /// What one tenant sees.
    ///
    /// # Errors
    /// A name that no tenant can have.
    pub fn of_tenant(&self, tenant: &str) -> Result<TenantViews, InvalidName> {
        TenantViews::of(self.store.clone(), tenant)
    }

    /// The holders that match, those that expire first at the top.
    pub async fn holders(&self, filter: &Filter) -> Result<Listed<HolderView>, StoreError> {
        let mut listed = self.read(filter.of_holders()).await?;
        listed.entries.sort_by_key(HolderDoc::millis_to_expiry);
        Ok(Listed {
            entries: listed.entries.into_iter().map(HolderView::from).collect(),
            unreadable: listed.unreadable,
        })
    }

    /// One holder, in any state.
    pub async fn holder(&self, token: &LeaseToken) -> Result<Option<HolderView>, StoreError> {
        Ok(self
            .store
            .holder(token, deadline())
            .await?
            .map(HolderView::from))
    }

    /// How many leases there are. Counted in the index, anew each time, so the numbers never drift.
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        let count = async |state| self.store.count(doc! { "state": state }, deadline()).await;
        let failed = doc! { "state": HolderState::Revoking, "revocation.failed": true };
        let failed = self.store.count(failed, deadline()).await?;
        Ok(Totals {
            pending: count(HolderState::Pending).await?,
            held: count(HolderState::Held).await?,
            revoking: count(HolderState::Revoking).await?.saturating_sub(failed),
            failed,
        })
    }

    /// The counters that match, with what the holders say of them. Read one after the other: while leases come and go,
    /// a counter and its holders may be seen at different moments.
    pub async fn counters(&self, filter: &Filter) -> Result<Listed<CounterView>, StoreError> {
        let mut counters = Vec::new();
        let mut unreadable = Vec::new();
        let mut after = String::new();
        loop {
            let page = self
                .store
                .counters_after(&after, 500, Read::Latest, deadline())
                .await?;
            let Some(last) = page.last() else { break };
            after = match last {
                Ok(counter) => counter.key.clone(),
                Err(raw) => raw.get_str("_id").unwrap_or(&after).to_owned(),
            };
            for counter in page {
                match counter {
                    Ok(counter) if filter.shows(&counter) => counters.push(counter),
                    Ok(_) => {}
                    Err(raw) => unreadable.push(format!(
                        "counter {}: not a counter",
                        raw.get("_id").map(ToString::to_string).unwrap_or_default()
                    )),
                }
            }
        }
        let holders = self.read(doc! {}).await?;
        unreadable.extend(holders.unreadable);
        let claims = Claims::of(&holders.entries);
        Ok(Listed {
            entries: counters
                .into_iter()
                .map(|counter| claims.view(counter))
                .collect(),
            unreadable,
        })
    }

    /// How far the capped levels of a definition are used where this tenancy would book them, also those that have no
    /// counter yet. Narrow to wide.
    pub async fn level_uses(
        &self,
        definition: &LeaseDefinition,
        tenancy: &Tenancy,
    ) -> Result<Listed<LevelUse>, StoreError> {
        let funnel = Funnel::plan(definition, tenancy);
        let resources = [&definition.resource, &definition.global_resource].map(Resource::as_str);
        // A tenant's own name for a resource does not keep its leases from booking the global counter.
        let concerned = doc! { "$or": [
            { "resource": { "$in": resources.to_vec() } },
            { "levels": { "$in": funnel.keys() } },
        ] };
        let holders = self.read(concerned).await?;
        let claims = Claims::of(&holders.entries);
        let uses = funnel.steps().iter().map(|step| {
            let scope = step.key.scope();
            let within = (
                step.key.resource().as_str(),
                scope.tenant(),
                scope.project(),
                scope.user(),
            );
            let (booked, unbooked) =
                claims.of_counter(&step.key.to_string(), step.key.level(), within);
            LevelUse {
                level: step.key.level(),
                held: booked + unbooked,
                unbooked,
            }
        });
        Ok(Listed {
            entries: uses.collect(),
            unreadable: holders.unreadable,
        })
    }

    async fn read(&self, filter: Document) -> Result<Listed<HolderDoc>, StoreError> {
        let mut listed = Listed {
            entries: Vec::new(),
            unreadable: Vec::new(),
        };
        for holder in self.store.holders_matching(filter, deadline()).await? {
            match holder {
                Ok(holder) => listed.entries.push(holder),
                Err(problem) => listed.unreadable.push(problem),
            }
        }
        Ok(listed)
    }
}

impl Filter {
    fn of_holders(&self) -> Document {
        let mut filter = Document::new();
        let mut narrow = |field: &str, value: Option<&str>| {
            if let Some(value) = value {
                filter.insert(field, value);
            }
        };
        narrow("tenantId", self.tenant.as_deref());
        narrow("projectId", self.project.as_deref());
        narrow("userId", self.user.as_deref());
        narrow("resource", self.resource.as_deref());
        narrow("pod", self.pod.as_ref().map(PodId::as_str));
        narrow("type", self.lease_type.as_deref());
        narrow("state", self.state.map(HolderState::as_str));
        filter
    }

    fn shows(&self, counter: &CounterDoc) -> bool {
        let matches = |wanted: &Option<String>, is: Option<&String>| {
            wanted.is_none() || wanted.as_ref() == is
        };
        matches(&self.tenant, counter.tenant_id.as_ref())
            && matches(&self.project, counter.project_id.as_ref())
            && matches(&self.user, counter.user_id.as_ref())
            && matches(&self.resource, Some(&counter.resource))
    }
}

/// A resource, and the tenant, project and user of a scope on it; absent names mean all.
type Within<'a> = (&'a str, Option<&'a str>, Option<&'a str>, Option<&'a str>);

/// What holders say of counters.
struct Claims<'a> {
    booked: HashMap<&'a str, i64>,
    awaiting_cleanup: HashMap<&'a str, i64>,
    failed: HashMap<&'a str, i64>,
    within: HashMap<Within<'a>, i64>,
}

impl<'a> Claims<'a> {
    fn of(holders: &'a [HolderDoc]) -> Self {
        let mut claims = Self {
            booked: HashMap::new(),
            awaiting_cleanup: HashMap::new(),
            failed: HashMap::new(),
            within: HashMap::new(),
        };
        for holder in holders {
            if holder.state == HolderState::Pending || holder.standing() == Standing::Returned {
                continue;
            }
            let failed = holder.revocation.as_ref().is_some_and(|it| it.failed);
            for key in &holder.levels {
                *claims.booked.entry(key).or_default() += 1;
                if holder.state == HolderState::Revoking {
                    *claims.awaiting_cleanup.entry(key).or_default() += 1;
                    *claims.failed.entry(key).or_default() += i64::from(failed);
                }
            }
            let resource = holder.resource.as_str();
            let tenant = Some(holder.tenant_id.as_str());
            let scopes = [
                (resource, None, None, None),
                (resource, tenant, None, None),
                (resource, tenant, Some(holder.project_id.as_str()), None),
                (resource, tenant, None, Some(holder.user_id.as_str())),
            ];
            // Who books a global counter books that of the operator's resource, whatever a tenant calls its own.
            let globally = holder.levels.iter().any(|key| key.contains("|global|"));
            for scope in scopes.into_iter().skip(usize::from(globally)) {
                *claims.within.entry(scope).or_default() += 1;
            }
        }
        claims
    }

    /// How many leases book a counter, and how many of its scope do not.
    fn of_counter(&self, key: &str, level: Level, scope: Within<'_>) -> (i64, i64) {
        let booked = self.booked.get(key).copied().unwrap_or(0);
        let within = self.within.get(&scope).copied().unwrap_or(0);
        let unbooked = match level {
            Level::Global => within,
            Level::User | Level::Project | Level::Tenant => (within - booked).max(0),
        };
        (booked, unbooked)
    }

    fn view(&self, counter: CounterDoc) -> CounterView {
        let of =
            |claims: &HashMap<&str, i64>| claims.get(counter.key.as_str()).copied().unwrap_or(0);
        let scope = (
            counter.resource.as_str(),
            counter.tenant_id.as_deref(),
            counter.project_id.as_deref(),
            counter.user_id.as_deref(),
        );
        let (booked, unbooked) = self.of_counter(&counter.key, counter.level, scope);
        let count = counter.tokens.len() as i64;
        CounterView {
            awaiting_cleanup: of(&self.awaiting_cleanup),
            failed: of(&self.failed),
            booked,
            unbooked,
            count_field: counter.count,
            drift: count - booked,
            count,
            key: counter.key,
            resource: counter.resource,
            level: counter.level,
            tenant: counter.tenant_id,
            project: counter.project_id,
            user: counter.user_id,
            lease: counter.lease,
            cap: counter.cap,
            updated_at: text(counter.updated_at),
        }
    }
}

impl From<HolderDoc> for HolderView {
    fn from(holder: HolderDoc) -> Self {
        Self {
            age_seconds: millis_between(holder.since(), holder.now) / 1000,
            expires_at: text(holder.expiry()),
            expires_in_seconds: whole_seconds(holder.millis_to_expiry()),
            ttl_seconds: holder.ttl_millis() / 1000,
            created_at: text(holder.created_at),
            acquired_at: holder.acquired_at.map(text),
            last_seen_at: text(holder.last_seen_at),
            payload_keys: holder.payload.keys().cloned().collect(),
            revocation_reason: holder
                .revocation
                .as_ref()
                .map(|revocation| revocation.reason),
            revoked_at: holder
                .revocation
                .as_ref()
                .map(|revocation| text(revocation.at)),
            cleanup: CleanupView::of(&holder),
            token: holder.token,
            lease: holder.lease,
            resource: holder.resource,
            lease_type: holder.lease_type.to_string(),
            state: holder.state,
            tenant: holder.tenant_id,
            project: holder.project_id,
            user: holder.user_id,
            holder_ref: holder.holder_ref,
            pod: holder.pod,
            pod_bound: holder.pod_bound,
            slot_return: holder.slot_return,
            levels: holder.levels,
            beats: holder.beats,
        }
    }
}

/// Rounded up, so that 0 says that the time has come.
fn whole_seconds(millis: i64) -> i64 {
    millis.max(0).saturating_add(999) / 1000
}

fn text(time: DateTime) -> String {
    time.try_to_rfc3339_string()
        .unwrap_or_else(|_| time.to_string())
}
