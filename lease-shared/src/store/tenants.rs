//! What one tenant may see: its id is in every filter, and the index that begins with it is the one that is used. Left
//! to itself the server at times prefers an index that leads through the leases of all tenants.

use std::collections::HashMap;

use mongodb::bson::{Bson, Document, doc};
use mongodb::options::Hint;
use tokio::time::Instant;

use super::counters::number;
use super::documents::{
    HOLDERS, HolderDoc, HolderState, STALE_PENDING_MILLIS, SlotReturn, ttl_millis,
};
use super::holders::parse;
use super::outcome::StoreError;
use super::{LeaseStore, MAX_TIME, Read};

/// The index on holders that begins with the tenant.
pub(super) const OF_TENANT: &str = "of_tenant";

/// Its keys. What does not change while a lease is held stands in it, so that a filtered list reads only the documents
/// that it shows.
pub(super) fn of_tenant() -> Document {
    doc! {
        "tenantId": 1, "state": 1, "createdAt": 1, "_id": 1,
        "resource": 1, "projectId": 1, "userId": 1, "type": 1, "pod": 1,
    }
}

/// The index on a tenant's revocations, in the order in which they want to be looked at.
pub(super) const REVOCATIONS_OF_TENANT: &str = "revocations_of_tenant";

/// Its keys.
pub(super) fn revocations_of_tenant() -> Document {
    doc! {
        "tenantId": 1, "state": 1, "revocation.failed": -1, "revocation.nextTryAt": 1, "createdAt": 1, "_id": 1,
    }
}

/// The index on counters that begins with the tenant.
pub(super) fn counters_of_tenant() -> Document {
    doc! { "tenantId": 1, "resource": 1, "level": 1 }
}

/// The order of a list of holders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HolderOrder {
    /// Those whose acquire began first at the top. An index serves this.
    #[default]
    Oldest,
    /// Those whose acquire began last.
    Newest,
    /// Those that expire first, unless they are used.
    Expiry,
    /// By the name of the resource.
    Resource,
    /// By project.
    Project,
    /// By user.
    User,
    /// Those being revoked, and no others: those that failed, then those that are tried next. An index serves this too.
    NextTry,
}

/// A part of what matches: after `skip` entries, at most `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// How many entries come before.
    pub skip: u32,
    /// How many are given at most.
    pub limit: u32,
}

impl Part {
    fn stages(self) -> [Document; 2] {
        [
            doc! { "$skip": i64::from(self.skip) },
            doc! { "$limit": i64::from(self.limit.max(1)) },
        ]
    }
}

impl LeaseStore {
    /// The holders of a tenant that match, with the server's clock; those that cannot be read as what is wrong.
    pub(crate) async fn holders_of_tenant(
        &self,
        filter: Document,
        order: HolderOrder,
        part: Part,
        deadline: Instant,
    ) -> Result<Vec<Result<HolderDoc, String>>, StoreError> {
        let mut pipeline = vec![doc! { "$match": filter }];
        pipeline.extend(order.stages());
        pipeline.extend(part.stages());
        pipeline.push(doc! { "$set": { "now": "$$NOW" } });
        let index = match order {
            HolderOrder::NextTry => REVOCATIONS_OF_TENANT,
            _ => OF_TENANT,
        };
        let found = self
            .of_tenant("list holders", pipeline, index, deadline)
            .await?;
        Ok(found.into_iter().map(parse).collect())
    }

    /// How many clean-ups of a tenant are marked as failed. Counted in the index.
    pub(crate) async fn failed_of_tenant(
        &self,
        tenant: &str,
        deadline: Instant,
    ) -> Result<u64, StoreError> {
        let failed =
            doc! { "tenantId": tenant, "state": HolderState::Revoking, "revocation.failed": true };
        self.step("count failed clean-ups", deadline, async {
            let holders = self.holders(&Read::Latest);
            let count = holders.count_documents(failed);
            let count = count.hint(Hint::Name(REVOCATIONS_OF_TENANT.to_owned()));
            Ok(count.max_time(MAX_TIME).await?)
        })
        .await
    }

    /// How many holders of a tenant match, by state. Counted in the index, unless the filter asks for what is not in it.
    pub(crate) async fn count_of_tenant(
        &self,
        filter: Document,
        deadline: Instant,
    ) -> Result<HashMap<HolderState, u64>, StoreError> {
        let pipeline = vec![
            doc! { "$match": filter },
            doc! { "$group": { "_id": "$state", "n": { "$sum": 1 } } },
        ];
        let counted = self
            .of_tenant("count holders", pipeline, OF_TENANT, deadline)
            .await?;
        let of = |state: HolderState| {
            let is = |count: &&Document| count.get_str("_id").is_ok_and(|is| is == state.as_str());
            let count = counted.iter().find(is);
            let count = count.map_or(0, |count| number(count.get("n")));
            (state, u64::try_from(count).unwrap_or(0))
        };
        Ok(HolderState::ALL.into_iter().map(of).collect())
    }

    async fn of_tenant(
        &self,
        step: &'static str,
        pipeline: Vec<Document>,
        index: &str,
        deadline: Instant,
    ) -> Result<Vec<Document>, StoreError> {
        self.step(step, deadline, async {
            let holders = self.holders(&Read::Latest);
            let listed = holders
                .aggregate(pipeline)
                .hint(Hint::Name(index.to_owned()));
            Read::Latest.aggregate(listed).await
        })
        .await
    }

    /// The counters of a tenant that match, without their tokens, those with the least room first. With how many match.
    pub(crate) async fn counters_of_tenant(
        &self,
        filter: Document,
        part: Part,
        deadline: Instant,
    ) -> Result<(Vec<Document>, u64), StoreError> {
        let is_list = doc! { "$isArray": "$tokens" };
        let is_cap = doc! { "$and": [{ "$isNumber": "$cap" }, { "$gt": ["$cap", 0] }] };
        let mut pipeline = vec![
            doc! { "$match": &filter },
            // Numbers only: what is none must not end the query over all the others.
            doc! { "$set": { "count": { "$cond": [is_list, { "$size": "$tokens" }, 0] } } },
            doc! { "$unset": "tokens" },
            doc! { "$set": { "used": { "$cond": [is_cap, { "$divide": ["$count", "$cap"] }, 0] } } },
            doc! { "$sort": { "used": -1, "count": -1, "_id": 1 } },
        ];
        pipeline.extend(part.stages());
        pipeline.push(doc! { "$set": { "now": "$$NOW" } });
        let listed = self.step("list counters", deadline, async {
            let counters = self.counters(&Read::Latest);
            let listed = counters.aggregate(pipeline);
            Read::Latest
                .aggregate(listed.hint(Hint::Keys(counters_of_tenant())))
                .await
        });
        Ok((listed.await?, self.count_counters(filter, deadline).await?))
    }

    /// How many counters of a tenant match.
    pub(crate) async fn count_counters(
        &self,
        filter: Document,
        deadline: Instant,
    ) -> Result<u64, StoreError> {
        self.step("count counters", deadline, async {
            let counters = self.counters(&Read::Latest);
            let count = counters.count_documents(filter);
            let count = count.hint(Hint::Keys(counters_of_tenant()));
            Ok(count.max_time(MAX_TIME).await?)
        })
        .await
    }

    /// How many holders list each of these counters, in whatever state: counted in the index, in one command.
    pub(crate) async fn listing(
        &self,
        keys: &[&str],
        deadline: Instant,
    ) -> Result<HashMap<String, i64>, StoreError> {
        let count = |key: &str| {
            vec![
                doc! { "$match": { "levels": key } },
                doc! { "$group": { "_id": Bson::Null, "n": { "$sum": 1 } } },
                doc! { "$set": { "_id": { "$literal": key } } },
            ]
        };
        let Some((first, others)) = keys.split_first() else {
            return Ok(HashMap::new());
        };
        let mut pipeline = count(first);
        for key in others {
            let and = doc! { "coll": HOLDERS, "pipeline": count(key) };
            pipeline.push(doc! { "$unionWith": and });
        }
        let counted = self
            .step("count bookings", deadline, async {
                let holders = self.holders(&Read::Latest);
                Read::Latest.aggregate(holders.aggregate(pipeline)).await
            })
            .await?;
        let entry = |count: &Document| {
            let key = count.get_str("_id").ok()?.to_owned();
            Some((key, number(count.get("n"))))
        };
        Ok(counted.iter().filter_map(entry).collect())
    }

    /// How many of a tenant's holders that list a counter do not book it, and how many of those that do are of revoked
    /// leases.
    pub(crate) async fn unsettled(
        &self,
        tenant: &str,
        keys: &[&str],
        deadline: Instant,
    ) -> Result<HashMap<String, Unsettled>, StoreError> {
        let unsettled = [HolderState::Pending, HolderState::Revoking];
        let returned = SlotReturn::AtOnce.as_str();
        let books = doc! { "$and": [
            { "$eq": ["$state", HolderState::Revoking] },
            { "$ne": ["$slotReturn", returned] },
        ] };
        let one_if = |is: Document, otherwise: i32| doc! { "$sum": { "$cond": [is, 1 - otherwise, otherwise] } };
        let pipeline = vec![
            doc! { "$match": { "tenantId": tenant, "state": { "$in": unsettled.to_vec() }, "levels": { "$in": keys } } },
            doc! { "$project": { "state": 1, "slotReturn": 1, "levels": 1 } },
            doc! { "$unwind": "$levels" },
            doc! { "$group": {
                "_id": "$levels",
                "awaiting": one_if(books.clone(), 0),
                "others": one_if(books, 1),
                "pending": one_if(doc! { "$eq": ["$state", HolderState::Pending] }, 0),
            } },
        ];
        let counted = self
            .of_tenant("count unsettled bookings", pipeline, OF_TENANT, deadline)
            .await?;
        let entry = |count: &Document| {
            let unsettled = Unsettled {
                not_booking: number(count.get("others")),
                pending: number(count.get("pending")),
                awaiting_cleanup: number(count.get("awaiting")),
            };
            Some((count.get_str("_id").ok()?.to_owned(), unsettled))
        };
        Ok(counted.iter().filter_map(entry).collect())
    }
}

/// The holders of a counter that are neither settled nor gone.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unsettled {
    /// Being acquired, or revoked with their slot given back at once.
    pub(crate) not_booking: i64,
    /// Those of them that are being acquired: each may be about to book it, or just have.
    pub(crate) pending: i64,
    /// Revoked, their slot to come back after the clean-up.
    pub(crate) awaiting_cleanup: i64,
}

impl HolderOrder {
    fn stages(self) -> Vec<Document> {
        let by = |field: &str| vec![doc! { "$sort": { field: 1, "createdAt": 1, "_id": 1 } }];
        match self {
            Self::Oldest => vec![doc! { "$sort": { "createdAt": 1, "_id": 1 } }],
            Self::Newest => vec![doc! { "$sort": { "createdAt": -1, "_id": -1 } }],
            Self::Resource => by("resource"),
            Self::Project => by("projectId"),
            Self::User => by("userId"),
            Self::NextTry => vec![doc! { "$sort": {
                "revocation.failed": -1, "revocation.nextTryAt": 1, "createdAt": 1, "_id": 1,
            } }],
            Self::Expiry => {
                // What is no date cannot expire, and must not end the query.
                let is_date = doc! { "$eq": [{ "$type": "$lastSeenAt" }, "date"] };
                let is_pending = doc! { "$eq": ["$state", HolderState::Pending] };
                let if_pending = doc! { "$min": [STALE_PENDING_MILLIS, ttl_millis()] };
                let limit = doc! { "$cond": [is_pending, if_pending, ttl_millis()] };
                // One beyond all times could not be added to.
                let last_seen = doc! { "$min": ["$lastSeenAt", "$$NOW"] };
                let expiry = doc! { "$add": [last_seen, limit] };
                let expiry = doc! { "$cond": [is_date, expiry, Bson::Null] };
                vec![
                    doc! { "$set": { "expiry": expiry } },
                    doc! { "$sort": { "expiry": 1, "createdAt": 1, "_id": 1 } },
                    doc! { "$unset": "expiry" },
                ]
            }
        }
    }
}
