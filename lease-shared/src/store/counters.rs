//! Counters: which tokens book a level of a scope.
//!
//! `count` and `tokens` change in one update, so `count` is always the number of tokens. Booking and unbooking a token
//! are idempotent: whoever does not know whether one of them was applied sends it again.

use std::collections::HashSet;

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};
use tokio::time::Instant;

use super::documents::{self, COUNTERS, CounterDoc};
use super::outcome::StoreError;
use super::{Acknowledge, LeaseStore, MAX_TIME, Read};
use crate::funnel::{Funnel, Step};
use crate::name::{LeaseName, LeaseToken};

/// How far a booking got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Booking {
    /// Every level is booked.
    Complete,
    /// This step of the funnel is full; the ones before it are booked, the ones after it are not.
    FullAt(usize),
}

/// The server's code for a conversion that failed: how a full counter stops the batch.
const CONVERSION_FAILURE: i32 = 241;

impl LeaseStore {
    /// Books `token` at every step of the funnel, in one command that stops at the first full counter.
    ///
    /// The filter is the `_id` alone, so that the server itself resolves the race of a first use; that there is room is
    /// the pipeline's condition, which throws when there is none. A token that is in already stays in, once.
    pub(crate) async fn book(
        &self,
        token: &LeaseToken,
        lease: &LeaseName,
        funnel: &Funnel,
        deadline: Instant,
    ) -> Result<Booking, StoreError> {
        let statements = funnel
            .steps()
            .iter()
            .map(|step| booking(token, lease, step))
            .collect();
        let sent = self.update(
            "book counters",
            deadline,
            COUNTERS,
            statements,
            Acknowledge::Majority,
        );
        match sent.await {
            Ok(_) => Ok(Booking::Complete),
            Err(error) => match error.refused() {
                Some((index, CONVERSION_FAILURE)) if index < funnel.steps().len() => {
                    Ok(Booking::FullAt(index))
                }
                _ => Err(error),
            },
        }
    }

    /// Takes `token` out of these counters. A counter that does not list it does not change, so anybody may do this
    /// at any later moment. A write that a failover loses leaves an orphan, which keeps a slot until it is found, and
    /// harms nothing else.
    pub(crate) async fn unbook(
        &self,
        token: &LeaseToken,
        keys: &[String],
        deadline: Instant,
    ) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let statement = doc! {
            "q": { "_id": { "$in": keys }, "tokens": token.as_str() },
            "u": without(&[token.as_str()]),
            "multi": true,
        };
        let sent = self.update(
            "unbook",
            deadline,
            COUNTERS,
            vec![statement],
            Acknowledge::Primary,
        );
        sent.await.map(drop)
    }

    /// Takes orphans out of one counter, and says whether any was still in.
    pub(crate) async fn unbook_orphans(
        &self,
        key: &str,
        tokens: &[&str],
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let statement = doc! {
            "q": { "_id": key, "tokens": { "$in": tokens } },
            "u": without(tokens),
        };
        let sent = self.update(
            "unbook orphans",
            deadline,
            COUNTERS,
            vec![statement],
            Acknowledge::Majority,
        );
        Ok(sent.await?.get_i32("n").unwrap_or(0) > 0)
    }

    /// Is there room at every step? Gives the first that is full. A snapshot, good for deciding whether an attempt is
    /// worth its writes and for nothing else.
    pub(crate) async fn first_full(
        &self,
        funnel: &Funnel,
        deadline: Instant,
    ) -> Result<Option<usize>, StoreError> {
        let counts: Vec<Document> = self
            .step("poll counters", deadline, async {
                let filter = doc! { "_id": { "$in": funnel.keys() } };
                let counters = self.counters(&Read::Latest);
                let find = counters.find(filter).projection(doc! { "count": 1 });
                Read::Latest.find(find).await
            })
            .await?;
        let is_full = |step: &Step| {
            let key = step.key.to_string();
            let counter = counts
                .iter()
                .find(|counter| counter.get_str("_id").is_ok_and(|id| id == key));
            counter.is_some_and(|counter| number(counter.get("count")) >= i64::from(step.cap.get()))
        };
        Ok(funnel.steps().iter().position(is_full))
    }

    /// One counter; nothing if nobody books it.
    pub(crate) async fn counter(
        &self,
        key: &str,
        session: &mut ClientSession,
        deadline: Instant,
    ) -> Result<Option<CounterDoc>, StoreError> {
        let step = "read counter";
        let read = Read::Committed(session);
        let found = self
            .step(step, deadline, async {
                let counters = self.counters(&read);
                read.find(counters.find(doc! { "_id": key })).await
            })
            .await?;
        let parse =
            |counter| documents::read(counter).map_err(|error| StoreError::malformed(step, error));
        found.into_iter().next().map(parse).transpose()
    }

    /// Up to `limit` counters in the order of their keys, from after `after`. Those that cannot be read are given as
    /// they stand.
    pub(crate) async fn counters_after(
        &self,
        after: &str,
        limit: i64,
        read: Read<'_>,
        deadline: Instant,
    ) -> Result<Vec<Result<CounterDoc, Document>>, StoreError> {
        let page = self
            .step("read counters", deadline, async {
                let counters = self.counters(&read);
                let find = counters.find(doc! { "_id": { "$gt": after } });
                read.find(find.sort(doc! { "_id": 1 }).limit(limit)).await
            })
            .await?;
        Ok(page
            .into_iter()
            .map(|counter| documents::read(counter.clone()).map_err(|_| counter))
            .collect())
    }

    /// Removes those of these counters that nobody books, and says how many. The condition is in the delete, so a booking
    /// that comes in between either keeps the counter or makes a new one.
    pub(crate) async fn remove_empty(
        &self,
        keys: &[String],
        deadline: Instant,
    ) -> Result<usize, StoreError> {
        let empty = doc! { "_id": { "$in": keys }, "count": 0, "tokens": { "$size": 0 } };
        let command = doc! {
            "delete": COUNTERS,
            "deletes": [{ "q": empty, "limit": 0 }],
            "writeConcern": Acknowledge::Majority.write_concern(),
            "maxTimeMS": MAX_TIME.as_millis() as i64,
        };
        let reply = self
            .command("remove empty counters", deadline, command)
            .await?;
        Ok(usize::try_from(reply.get_i32("n").unwrap_or(0)).unwrap_or(0))
    }

    /// Which of these counters there are.
    pub(crate) async fn which_are_there(
        &self,
        keys: &[String],
        deadline: Instant,
    ) -> Result<HashSet<String>, StoreError> {
        let found = self
            .step("look which counters are there", deadline, async {
                let counters = self.counters(&Read::Latest);
                let find = counters.find(doc! { "_id": { "$in": keys } });
                Read::Latest.find(find.projection(doc! { "_id": 1 })).await
            })
            .await?;
        Ok(found
            .iter()
            .filter_map(|counter| Some(counter.get_str("_id").ok()?.to_owned()))
            .collect())
    }
}

/// The statement that books one step. `$literal` keeps a name such as `$ttlSeconds` a name. The text that cannot become
/// a number depends on the document, or the server would evaluate it before looking at any.
fn booking(token: &LeaseToken, lease: &LeaseName, step: &Step) -> Document {
    let token = token.as_str();
    let scope = step.key.scope();
    // A counter that has a count but no tokens is broken. What stands in for them is no list, so the server refuses.
    let none = doc! { "$cond": [{ "$gt": [{ "$ifNull": ["$count", 0] }, 0] }, "missing", []] };
    let tokens = doc! { "$ifNull": ["$tokens", none] };
    let full = doc! { "$toInt": { "$concat": ["lease counter is full: ", "$_id"] } };
    let append = doc! { "$concatArrays": [&tokens, [token]] };
    let has_room = doc! { "$lt": [{ "$size": &tokens }, i32::from(step.cap.get())] };
    let mut fields = doc! {
        "resource": literal(step.key.resource().as_str()),
        "level": step.key.level().as_str(),
        "lease": literal(lease.as_str()),
        "cap": i32::from(step.cap.get()),
        "tokens": { "$cond": [
            { "$in": [token, &tokens] },
            &tokens,
            { "$cond": [has_room, append, full] },
        ] },
        "updatedAt": "$$NOW",
    };
    let names = [
        ("tenantId", scope.tenant()),
        ("projectId", scope.project()),
        ("userId", scope.user()),
    ];
    for (field, name) in names {
        if let Some(name) = name {
            fields.insert(field, literal(name));
        }
    }
    doc! {
        "q": { "_id": step.key.to_string() },
        "u": [{ "$set": fields }, { "$set": { "count": { "$size": "$tokens" } } }],
        "upsert": true,
    }
}

fn without(tokens: &[&str]) -> Vec<Document> {
    vec![
        doc! { "$set": {
            "tokens": { "$filter": { "input": "$tokens", "cond": { "$not": { "$in": ["$$this", tokens] } } } },
            "updatedAt": "$$NOW",
        } },
        doc! { "$set": { "count": { "$size": "$tokens" } } },
    ]
}

fn literal(text: &str) -> Document {
    doc! { "$literal": text }
}

/// A whole number of any width.
pub(crate) fn number(value: Option<&Bson>) -> i64 {
    match value {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Double(number)) => *number as i64,
        _ => 0,
    }
}
