//! What one tenant sees of its own leases. The global level belongs to no tenant, and is not shown.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use serde::{Deserialize, Serialize};

use super::{Filter, HolderView, Totals, text};
use crate::level::Level;
use crate::name::{InvalidName, LeaseToken};
use crate::scope::check_segment;
use crate::store::documents::{self, HolderState};
pub use crate::store::tenants::{HolderOrder, Part};
use crate::store::{LeaseStore, StoreError, deadline};

/// The longest text that is searched for, in characters.
const TEXT: usize = 200;

/// Reads the leases of one tenant for people. Changes nothing.
#[derive(Debug, Clone)]
pub struct TenantViews {
    store: LeaseStore,
    tenant: String,
}

/// Which holders of a tenant to show. What is absent does not filter.
#[derive(Debug, Clone, Default)]
pub struct HolderQuery {
    /// Exactly this resource, project, user, pod, type, and state; its tenant is not looked at.
    pub filter: Filter,
    /// Somewhere in the names, the holder's own id or the token, whatever its case.
    pub text: Option<String>,
    /// Whose acquire began longer ago than this.
    pub older_than: Option<Duration>,
    /// In this order.
    pub order: HolderOrder,
}

/// Which counters of a tenant to show. What is absent does not filter.
#[derive(Debug, Clone, Default)]
pub struct CounterQuery {
    /// Of this resource.
    pub resource: Option<String>,
    /// Of this level.
    pub level: Option<Level>,
    /// Of this project.
    pub project: Option<String>,
    /// Of this user.
    pub user: Option<String>,
    /// Somewhere in the names, whatever its case.
    pub text: Option<String>,
}

/// A part of what matches.
#[derive(Debug, Clone)]
pub struct PartOf<T> {
    /// The server's time at which it was read; nothing if there is no entry.
    pub now: Option<String>,
    /// The entries of this part that could be read.
    pub entries: Vec<T>,
    /// One line for each that could not.
    pub unreadable: Vec<String>,
    /// How many match altogether.
    pub matching: u64,
}

impl<T> PartOf<T> {
    /// The same of something else.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> PartOf<U> {
        PartOf {
            now: self.now,
            entries: self.entries.into_iter().map(each).collect(),
            unreadable: self.unreadable,
            matching: self.matching,
        }
    }
}

/// One holder, and what its consumer left for its clean-up.
#[derive(Debug, Clone)]
pub struct WholeHolder {
    /// The server's time at which it was read.
    pub now: String,
    /// The lease.
    pub holder: HolderView,
    /// For its handler; it may hold secrets.
    pub payload: Document,
}

/// One counter as its tenant sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TenantCounter {
    /// Its key.
    pub key: String,
    /// The resource it counts.
    pub resource: String,
    /// The level: tenant, project or user.
    pub level: Level,
    /// The project, at that level.
    pub project: Option<String>,
    /// The user, at that level.
    pub user: Option<String>,
    /// The definition of the last booking. One counter may be reached under several, with different caps.
    pub lease: String,
    /// The cap that the last booking saw.
    pub cap: i64,
    /// The slots in use, by the counter's own list.
    pub count: i64,
    /// The leases that say they book it.
    pub booked: i64,
    /// How many of these are of revoked leases: nobody uses them, and they come back when their clean-ups are done.
    pub awaiting_cleanup: i64,
    /// The leases that are being acquired: each may be about to book it, or just have.
    pub pending: i64,
    /// `count` minus `booked`, as far as what is being acquired does not explain it. Other than 0 for long: the counter and
    /// the leases tell different stories.
    pub drift: i64,
    /// When it last changed.
    pub updated_at: String,
}

impl TenantCounter {
    /// Are more slots in use than the last booking's cap allows? The cap was lowered, or leases of one resource have
    /// different ones.
    pub fn is_over_cap(&self) -> bool {
        self.count > self.cap
    }

    /// Does whoever wants another slot wait?
    pub fn is_full(&self) -> bool {
        self.count >= self.cap
    }
}

/// As stored, the tokens counted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    #[serde(rename = "_id")]
    key: String,
    resource: String,
    level: Level,
    project_id: Option<String>,
    user_id: Option<String>,
    lease: String,
    cap: i64,
    count: i64,
    updated_at: mongodb::bson::DateTime,
}

impl TenantViews {
    pub(super) fn of(store: LeaseStore, tenant: &str) -> Result<Self, InvalidName> {
        check_segment("tenant", tenant)?;
        let tenant = tenant.to_owned();
        Ok(Self { store, tenant })
    }

    /// The tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// A part of the tenant's holders that match, and how many match.
    ///
    /// In the orders that an index serves it examines the documents it gives, and no others, unless it is narrowed by what
    /// the index has not in it; other orders look at all that match.
    ///
    /// # Errors
    /// A query that can match nothing for its form, or a store that does not answer.
    pub async fn holders(
        &self,
        query: &HolderQuery,
        part: Part,
    ) -> Result<PartOf<HolderView>, ViewError> {
        let filter = query.of(&self.tenant)?;
        let deadline = deadline();
        let listed = self
            .store
            .holders_of_tenant(filter.clone(), query.order, part, deadline)
            .await?;
        let counted = self.store.count_of_tenant(filter, deadline).await?;
        let mut page = PartOf {
            now: None,
            entries: Vec::new(),
            unreadable: Vec::new(),
            matching: counted.values().sum(),
        };
        for holder in listed {
            match holder {
                Ok(holder) => {
                    page.now = Some(text(holder.now));
                    page.entries.push(without_global(HolderView::from(holder)));
                }
                Err(problem) => page.unreadable.push(problem),
            }
        }
        Ok(page)
    }

    /// One holder of the tenant, in any state. Nothing: there is none, or it is another tenant's.
    ///
    /// # Errors
    /// A document that cannot be read, or a store that does not answer.
    pub async fn holder(&self, token: &LeaseToken) -> Result<Option<WholeHolder>, ViewError> {
        let filter = doc! { "_id": token.as_str(), "tenantId": &self.tenant };
        let found = self.store.holders_matching(filter, deadline()).await?;
        let holder = found.into_iter().next();
        let holder = holder.transpose().map_err(ViewError::Unreadable)?;
        Ok(holder.map(|holder| WholeHolder {
            now: text(holder.now),
            payload: holder.payload.clone(),
            holder: without_global(HolderView::from(holder)),
        }))
    }

    /// Those of these holders that are the tenant's, in any state and order. What cannot be read is left out.
    ///
    /// # Errors
    /// A store that does not answer.
    pub async fn holders_named(
        &self,
        tokens: &[LeaseToken],
    ) -> Result<Vec<HolderView>, StoreError> {
        let tokens: Vec<&str> = tokens.iter().map(LeaseToken::as_str).collect();
        let filter = doc! { "_id": { "$in": tokens }, "tenantId": &self.tenant };
        let found = self.store.holders_matching(filter, deadline()).await?;
        let readable = found.into_iter().flatten();
        Ok(readable.map(HolderView::from).map(without_global).collect())
    }

    /// How many leases the tenant has, by where they stand. Counted in indexes.
    ///
    /// # Errors
    /// A store that does not answer.
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        let deadline = deadline();
        let states = doc! { "tenantId": &self.tenant, "state": any_state() };
        let counted = self.store.count_of_tenant(states, deadline).await?;
        let of = |state| counted.get(&state).copied().unwrap_or(0);
        let revoking = of(HolderState::Revoking);
        let failed = match revoking {
            0 => 0,
            _ => self.store.failed_of_tenant(&self.tenant, deadline).await?,
        };
        Ok(Totals {
            pending: of(HolderState::Pending),
            held: of(HolderState::Held),
            revoking: revoking.saturating_sub(failed),
            failed,
        })
    }

    /// How many counters the tenant has.
    ///
    /// # Errors
    /// A store that does not answer.
    pub async fn counter_count(&self) -> Result<u64, StoreError> {
        let own = doc! { "tenantId": &self.tenant };
        self.store.count_counters(own, deadline()).await
    }

    /// A part of the tenant's counters that match, those with the least room first, and how many match. Read before its
    /// holders are: while leases come and go, a counter and its holders may be seen at different moments.
    ///
    /// # Errors
    /// A query that can match nothing for its form, or a store that does not answer.
    pub async fn counters(
        &self,
        query: &CounterQuery,
        part: Part,
    ) -> Result<PartOf<TenantCounter>, ViewError> {
        let filter = query.of(&self.tenant)?;
        let deadline = deadline();
        let (listed, matching) = self
            .store
            .counters_of_tenant(filter, part, deadline)
            .await?;
        let mut page = PartOf {
            now: None,
            entries: Vec::new(),
            unreadable: Vec::new(),
            matching,
        };
        let mut counters: Vec<Counted> = Vec::new();
        for counter in listed {
            page.now = counter.get_datetime("now").ok().copied().map(text);
            let key = counter.get("_id").map(ToString::to_string);
            match documents::read(counter) {
                Ok(counter) => counters.push(counter),
                Err(_) => page.unreadable.push(format!(
                    "counter {}: not a counter",
                    key.unwrap_or_default()
                )),
            }
        }
        let keys: Vec<&str> = counters
            .iter()
            .map(|counter| counter.key.as_str())
            .collect();
        let listing = self.store.listing(&keys, deadline).await?;
        let unsettled = match keys.is_empty() {
            true => Default::default(),
            false => self.store.unsettled(&self.tenant, &keys, deadline).await?,
        };
        let view = |counter: Counted| {
            let unsettled = unsettled.get(&counter.key).copied().unwrap_or_default();
            let listing = listing.get(&counter.key).copied().unwrap_or(0);
            let booked = (listing - unsettled.not_booking).max(0);
            let pending = unsettled.pending;
            let beyond = counter.count.saturating_sub(booked);
            TenantCounter {
                booked,
                awaiting_cleanup: unsettled.awaiting_cleanup,
                pending,
                drift: beyond - beyond.clamp(0, pending),
                key: counter.key,
                resource: counter.resource,
                level: counter.level,
                project: counter.project_id,
                user: counter.user_id,
                lease: counter.lease,
                cap: counter.cap,
                count: counter.count,
                updated_at: text(counter.updated_at),
            }
        };
        page.entries = counters.into_iter().map(view).collect();
        Ok(page)
    }
}

/// Why a tenant's view could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// What is asked for breaks a rule.
    #[error(transparent)]
    Invalid(#[from] InvalidName),
    /// The document is there and cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HolderQuery {
    /// Can anything match it?
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self) -> Result<(), InvalidName> {
        self.of("any").map(drop)
    }

    fn of(&self, tenant: &str) -> Result<Document, InvalidName> {
        let own = Filter {
            tenant: Some(tenant.to_owned()),
            ..self.filter.clone()
        };
        for (kind, value) in [
            ("resource", &own.resource),
            ("type", &own.lease_type),
            ("project", &own.project),
            ("user", &own.user),
        ] {
            if let Some(value) = value {
                check_segment(kind, value)?;
            }
        }
        let mut filter = own.of_holders();
        if self.order == HolderOrder::NextTry {
            filter.insert("state", HolderState::Revoking);
        } else if self.filter.state.is_none() {
            filter.insert("state", any_state());
        }
        if let Some(age) = self.older_than {
            let millis = i64::try_from(age.as_millis()).unwrap_or(i64::MAX / 4);
            let limit = doc! { "$subtract": ["$$NOW", millis.min(i64::MAX / 4)] };
            filter.insert("$expr", doc! { "$lt": ["$createdAt", limit] });
        }
        search(
            &mut filter,
            self.text.as_deref(),
            &[
                "_id",
                "lease",
                "resource",
                "type",
                "projectId",
                "userId",
                "holderRef",
                "pod",
            ],
        )?;
        Ok(filter)
    }
}

impl CounterQuery {
    /// Can anything match it?
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self) -> Result<(), InvalidName> {
        self.of("any").map(drop)
    }

    fn of(&self, tenant: &str) -> Result<Document, InvalidName> {
        let mut filter = doc! { "tenantId": tenant };
        let level = self.level.map(Level::as_str).map(str::to_owned);
        for (kind, field, value) in [
            ("resource", "resource", &self.resource),
            ("level", "level", &level),
            ("project", "projectId", &self.project),
            ("user", "userId", &self.user),
        ] {
            if let Some(value) = value {
                check_segment(kind, value)?;
                filter.insert(field, value);
            }
        }
        let fields = ["resource", "lease", "projectId", "userId"];
        search(&mut filter, self.text.as_deref(), &fields)?;
        Ok(filter)
    }
}

/// Narrows `filter` to what has `text` in one of these fields.
fn search(filter: &mut Document, text: Option<&str>, fields: &[&str]) -> Result<(), InvalidName> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    if text.chars().count() > TEXT || text.chars().any(char::is_control) {
        let rule = "must be at most 200 characters without control characters";
        return Err(InvalidName::new("search text", text, rule));
    }
    let pattern = escaped(text);
    let has = |field: &&str| doc! { *field: { "$regex": &pattern, "$options": "i" } };
    filter.insert("$or", fields.iter().map(has).collect::<Vec<_>>());
    Ok(())
}

/// The pattern that matches this text and nothing else.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

fn any_state() -> Document {
    doc! { "$in": HolderState::ALL.to_vec() }
}

fn without_global(mut holder: HolderView) -> HolderView {
    holder.levels.retain(|key| !key.contains("|global|"));
    holder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_takes_signs_for_themselves() {
        assert_eq!(escaped("a.b (c)*"), "a\\.b\\ \\(c\\)\\*");
        assert_eq!(escaped("Grün"), "Grün");
    }
}
