//! Holders: one document per lease, and the only ways in and out of it.
//!
//! In: [`LeaseStore::open`], once per token. Out for its own holder: [`LeaseStore::take`]. Out for everybody else:
//! [`LeaseStore::revoke`], then [`LeaseStore::finish`]. Nothing upserts after `open`, so no document comes back.

use std::collections::HashMap;

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};
use tokio::time::Instant;

use super::documents::{
    self, COUNTERS, Claim, HOLDERS, HolderDoc, HolderState, SlotReturn, check_payload, expired,
    expired_by_ttl, is_token, texts, ttl_millis,
};
use super::outcome::StoreError;
use super::{Acknowledge, LeaseStore, MAX_TIME, Read};
use crate::level::TtlSeconds;
use crate::name::{LeaseName, LeaseToken, LeaseType, PodId, Resource};
use crate::revocation::RevocationReason;
use crate::scope::Tenancy;

/// How many times to live one query looks for.
const BRANCHES: usize = 100;

/// What a new holder says of itself.
#[derive(Debug)]
pub(crate) struct NewHolder<'a> {
    pub(crate) token: &'a LeaseToken,
    pub(crate) lease: &'a LeaseName,
    pub(crate) resource: &'a Resource,
    pub(crate) lease_type: &'a LeaseType,
    pub(crate) keys: &'a [String],
    pub(crate) tenancy: &'a Tenancy,
    pub(crate) holder_ref: &'a str,
    pub(crate) pod: Option<&'a PodId>,
    pub(crate) pod_bound: bool,
    pub(crate) slot_return: SlotReturn,
    pub(crate) payload: &'a Document,
    pub(crate) ttl: TtlSeconds,
}

impl LeaseStore {
    /// Writes the PENDING document of a fresh token. Never to be sent twice for one token: a late second copy could
    /// bring back a document that a reaper took, and the lease would be held without a booking.
    ///
    /// One node's acknowledgement is enough, for the booking that follows on the same node waits for a majority of
    /// everything before it.
    pub(crate) async fn open(
        &self,
        holder: &NewHolder<'_>,
        deadline: Instant,
    ) -> Result<(), StoreError> {
        let literal = |text: &str| doc! { "$literal": text };
        let mut fields = doc! {
            "lease": literal(holder.lease.as_str()),
            "resource": literal(holder.resource.as_str()),
            "type": literal(holder.lease_type.as_str()),
            "state": HolderState::Pending,
            "levels": { "$literal": holder.keys },
            "tenantId": literal(holder.tenancy.tenant()),
            "projectId": literal(holder.tenancy.project()),
            "userId": literal(holder.tenancy.user()),
            "holderRef": literal(holder.holder_ref),
            "podBound": { "$literal": holder.pod_bound },
            "slotReturn": holder.slot_return.as_str(),
            "payload": { "$literal": holder.payload },
            "ttlSeconds": { "$literal": i64::from(holder.ttl.get()) },
            "createdAt": "$$NOW",
            "lastSeenAt": "$$NOW",
            "beats": { "$literal": 0_i64 },
        };
        if let Some(pod) = holder.pod {
            fields.insert("pod", literal(pod.as_str()));
        }
        let statement = doc! {
            "q": { "_id": holder.token.as_str() },
            "u": [{ "$set": fields }],
            "upsert": true,
        };
        let sent = self.update(
            "open holder",
            deadline,
            HOLDERS,
            vec![statement],
            Acknowledge::Primary,
        );
        sent.await.map(drop)
    }

    /// PENDING becomes HELD, and its time starts now. HELD matches as well, so that a second sending says the same.
    /// False: a reaper took it meanwhile.
    pub(crate) async fn mark_held(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let statement = doc! {
            "q": own(token),
            "u": {
                "$set": { "state": HolderState::Held },
                "$currentDate": { "acquiredAt": true, "lastSeenAt": true },
            },
        };
        self.matched("mark held", deadline, statement).await
    }

    /// "Still mine", and the time starts anew. `beats` makes it a real write even when two fall into one millisecond.
    pub(crate) async fn touch(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let statement = doc! {
            "q": { "_id": token.as_str(), "state": HolderState::Held },
            "u": { "$currentDate": { "lastSeenAt": true }, "$inc": { "beats": 1_i64 } },
        };
        self.matched("touch holder", deadline, statement).await
    }

    /// Replaces what the handler will get, unless a later one is there already, and counts as a use. The payload is
    /// wrapped, or `{"jobId": "$ttlSeconds"}` would be taken for an expression.
    pub(crate) async fn set_payload(
        &self,
        token: &LeaseToken,
        payload: &Document,
        number: i64,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        let refused = |problem| StoreError::malformed("write payload", format!("it {problem}"));
        check_payload(payload).map_err(refused)?;
        let newest = doc! { "$ifNull": ["$payloadNumber", 0_i64] };
        let is_newer = doc! { "$gt": [{ "$literal": number }, newest] };
        let statement = doc! {
            "q": { "_id": token.as_str(), "state": HolderState::Held },
            "u": [{ "$set": {
                "payload": { "$cond": [&is_newer, { "$literal": payload }, "$payload"] },
                "payloadNumber": { "$cond": [&is_newer, { "$literal": number }, "$payloadNumber"] },
                "lastSeenAt": "$$NOW",
                "beats": { "$add": ["$beats", 1_i64] },
            } }],
        };
        self.matched("write payload", deadline, statement).await
    }

    async fn matched(
        &self,
        step: &'static str,
        deadline: Instant,
        statement: Document,
    ) -> Result<bool, StoreError> {
        let sent = self.update(
            step,
            deadline,
            HOLDERS,
            vec![statement],
            Acknowledge::Majority,
        );
        Ok(sent.await?.get_i32("n").unwrap_or(0) == 1)
    }

    /// Removes a holder that was not revoked and gives the keys it booked: the door out for release and rollback.
    /// Whoever gets the keys unbooks them; nobody else gets them.
    pub(crate) async fn take(
        &self,
        token: &LeaseToken,
        acknowledge: Acknowledge,
        deadline: Instant,
    ) -> Result<Option<Vec<String>>, StoreError> {
        self.remove("take holder", own(token), acknowledge, deadline)
            .await
    }

    /// Removes a PENDING document that its acquirer has given up, or died over. It has nothing to clean up.
    pub(crate) async fn take_stale(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let mut filter = expired(HolderState::Pending);
        filter.insert("_id", token.as_str());
        self.remove("take stale holder", filter, Acknowledge::Majority, deadline)
            .await
    }

    /// HELD becomes REVOKING if it is still expired. Nothing: the holder was touched, released or revoked since it was
    /// listed.
    pub(crate) async fn revoke_idle(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<Option<HolderDoc>, StoreError> {
        let mut filter = expired(HolderState::Held);
        filter.insert("_id", token.as_str());
        self.revoke(filter, RevocationReason::Idle, None, deadline)
            .await
    }

    /// HELD becomes REVOKING because somebody decided so, if it is still what they decided about.
    pub(crate) async fn revoke_decided(
        &self,
        token: &LeaseToken,
        decision: &Decision,
        deadline: Instant,
    ) -> Result<Option<HolderDoc>, StoreError> {
        let mut filter = decision.filter(token);
        filter.insert("state", HolderState::Held);
        self.revoke(filter, RevocationReason::Revoke, Some(decision), deadline)
            .await
    }

    /// The door into REVOKING. From here on a check says lost.
    ///
    /// The clean-up is due at once, but for an exclusive lease without a pod: nobody can reach its holder, which learns
    /// of this at its next check. So what it does is taken to go on until it says that it has ended, or its time is over.
    pub(super) async fn revoke(
        &self,
        filter: Document,
        reason: RevocationReason,
        decision: Option<&Decision>,
        deadline: Instant,
    ) -> Result<Option<HolderDoc>, StoreError> {
        let out_of_reach = doc! { "$and": [
            { "$eq": [{ "$type": "$pod" }, "missing"] },
            { "$eq": ["$slotReturn", SlotReturn::AfterCleanup.as_str()] },
        ] };
        // Whatever stands there: one that cannot be read must not be one that cannot be revoked.
        let is_date = doc! { "$eq": [{ "$type": "$lastSeenAt" }, "date"] };
        let last_seen = doc! { "$cond": [is_date, { "$min": ["$lastSeenAt", "$$NOW"] }, "$$NOW"] };
        let its_end = doc! { "$max": ["$$NOW", { "$add": [last_seen, ttl_millis()] }] };
        let mut revocation = doc! {
            "reason": reason.as_str(),
            "at": "$$NOW",
            "attempts": { "$literal": 0_i64 },
            "nextTryAt": { "$cond": [out_of_reach, its_end, "$$NOW"] },
        };
        if let Some(decision) = decision {
            decision.sign(&mut revocation);
        }
        let update = doc! { "$set": { "state": HolderState::Revoking, "revocation": revocation } };
        self.find_and_update("revoke holder", filter, update, deadline)
            .await?
            .map(|holder| readable("revoke holder", holder))
            .transpose()
    }

    /// Changes one holder that is being revoked from then on at the latest, and gives it as it then is, its clock that of
    /// the revocation.
    pub(super) async fn find_and_update(
        &self,
        step: &'static str,
        filter: Document,
        update: Document,
        deadline: Instant,
    ) -> Result<Option<Document>, StoreError> {
        let command = doc! {
            "findAndModify": HOLDERS,
            "query": filter,
            "update": [update],
            "new": true,
            "writeConcern": Acknowledge::Majority.write_concern(),
            "maxTimeMS": MAX_TIME.as_millis() as i64,
        };
        let mut reply = self.command(step, deadline, command).await?;
        let Some(Bson::Document(mut holder)) = reply.remove("value") else {
            return Ok(None);
        };
        let revoked_at = holder
            .get_document("revocation")
            .ok()
            .and_then(|revocation| revocation.get("at").cloned());
        holder.insert("now", revoked_at);
        Ok(Some(holder))
    }

    /// Removes the REVOKING document of a command whose time has run out since it was last seen: by then `lease run`
    /// has ended whatever ran under it.
    pub(crate) async fn finish_expired_command(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let mut filter = expired(HolderState::Revoking);
        filter.extend(doc! { "_id": token.as_str(), "type": LeaseType::command().as_str() });
        self.remove("finish command", filter, Acknowledge::Majority, deadline)
            .await
    }

    /// Removes the REVOKING document of a command because its wrapper says that the command has ended.
    pub(crate) async fn finish_ended_command(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let filter = doc! {
            "_id": token.as_str(),
            "state": HolderState::Revoking,
            "type": LeaseType::command().as_str(),
        };
        self.remove("finish command", filter, Acknowledge::Majority, deadline)
            .await
    }

    /// One conditional find-and-delete. The keys are given even if a booking of them never happened.
    pub(super) async fn remove(
        &self,
        step: &'static str,
        filter: Document,
        acknowledge: Acknowledge,
        deadline: Instant,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let command = doc! {
            "findAndModify": HOLDERS,
            "query": filter,
            "remove": true,
            "fields": { "levels": 1 },
            "writeConcern": acknowledge.write_concern(),
            "maxTimeMS": MAX_TIME.as_millis() as i64,
        };
        let reply = self.command(step, deadline, command).await?;
        let Ok(holder) = reply.get_document("value") else {
            return Ok(None);
        };
        Ok(Some(texts(holder, "levels")))
    }

    /// Up to `limit` tokens of holders in `state` whose time has run out; of REVOKING ones only commands, for the others
    /// stay until their handlers are done and would fill the list. Index keys are examined in proportion to what is
    /// expired, not to what is there.
    pub(crate) async fn expired(
        &self,
        state: HolderState,
        limit: i64,
        deadline: Instant,
    ) -> Result<Vec<LeaseToken>, StoreError> {
        let ttls = self
            .step("list times to live", deadline, async {
                Ok(self
                    .holders(&Read::Latest)
                    // Numbers alone, `NaN` among them: what else stands there could be as large as a document may be.
                    .distinct(
                        "ttlSeconds",
                        doc! { "state": state, "ttlSeconds": { "$type": "number" } },
                    )
                    .max_time(MAX_TIME)
                    .await?)
            })
            .await?;
        // One that is no number is a broken document's, and a query without a branch is none.
        let is_number =
            |ttl: &Bson| matches!(ttl, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_));
        let ttls: Vec<Bson> = ttls.into_iter().filter(is_number).collect();
        let mut found: Vec<Document> = Vec::new();
        // Anybody who may write a definition may choose a time to live, so there can be thousands.
        for ttls in ttls.chunks(BRANCHES) {
            let Some(mut filter) = expired_by_ttl(state, ttls) else {
                continue;
            };
            filter.insert("_id", is_token());
            if state == HolderState::Revoking {
                filter.insert("type", LeaseType::command().as_str());
            }
            let left = limit - found.len() as i64;
            let more = self.step("find expired holders", deadline, async {
                let holders = self.holders(&Read::Latest);
                let find = holders.find(filter).projection(doc! { "_id": 1 });
                Read::Latest.find(find.limit(left)).await
            });
            found.extend(more.await?);
            if found.len() as i64 >= limit {
                break;
            }
        }
        Ok(found
            .iter()
            .filter_map(|holder| LeaseToken::new(holder.get_str("_id").ok()?).ok())
            .collect())
    }

    /// One holder in any state.
    pub(crate) async fn holder(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<Option<HolderDoc>, StoreError> {
        self.holder_of(token, None, deadline).await
    }

    /// The same, if it is this tenant's.
    pub(crate) async fn holder_of(
        &self,
        token: &LeaseToken,
        tenant: Option<&str>,
        deadline: Instant,
    ) -> Result<Option<HolderDoc>, StoreError> {
        let mut filter = doc! { "_id": token.as_str() };
        if let Some(tenant) = tenant {
            filter.insert("tenantId", tenant);
        }
        let found = self.holders_matching(filter, deadline).await?;
        found
            .into_iter()
            .next()
            .map(|holder| holder.map_err(|broken| StoreError::malformed("read holders", broken)))
            .transpose()
    }

    /// How many holders match.
    pub(crate) async fn count(
        &self,
        filter: Document,
        deadline: Instant,
    ) -> Result<u64, StoreError> {
        self.step("count holders", deadline, async {
            let holders = self.holders(&Read::Latest);
            Ok(holders.count_documents(filter).max_time(MAX_TIME).await?)
        })
        .await
    }

    /// The holders that match, with the server's clock. Those that cannot be read are given as what is wrong.
    pub(crate) async fn holders_matching(
        &self,
        filter: Document,
        deadline: Instant,
    ) -> Result<Vec<Result<HolderDoc, String>>, StoreError> {
        let found = self.stored_holders(filter, deadline).await?;
        Ok(found.into_iter().map(parse).collect())
    }

    /// The same as they are stored, for whoever shows what is wrong with one.
    pub(crate) async fn stored_holders(
        &self,
        filter: Document,
        deadline: Instant,
    ) -> Result<Vec<Document>, StoreError> {
        let set = doc! { "now": "$$NOW" };
        self.read_holders(filter, set, Read::Latest, deadline).await
    }

    /// The holders of those of these tokens that have one, in any state, without their payloads.
    pub(crate) async fn holders_of(
        &self,
        tokens: &[String],
        session: &mut ClientSession,
        deadline: Instant,
    ) -> Result<HashMap<String, Result<HolderDoc, String>>, StoreError> {
        let filter = doc! { "_id": { "$in": tokens } };
        let set = doc! { "now": "$$NOW", "payload": { "$literal": {} } };
        let found = self
            .read_holders(filter, set, Read::Committed(session), deadline)
            .await?;
        Ok(found
            .into_iter()
            .filter_map(|holder| Some((holder.get_str("_id").ok()?.to_owned(), parse(holder))))
            .collect())
    }

    async fn read_holders(
        &self,
        filter: Document,
        set: Document,
        read: Read<'_>,
        deadline: Instant,
    ) -> Result<Vec<Document>, StoreError> {
        let pipeline = [doc! { "$match": filter }, doc! { "$set": set }];
        self.step("read holders", deadline, async {
            let holders = self.holders(&read);
            read.aggregate(holders.aggregate(pipeline)).await
        })
        .await
    }

    /// What the holder documents of these tokens say of their bookings. One that cannot be read counts as booking: it
    /// exists, and freeing its slot would be a guess.
    pub(crate) async fn claims(
        &self,
        tokens: &[String],
        session: &mut ClientSession,
        deadline: Instant,
    ) -> Result<HashMap<String, Claim>, StoreError> {
        let filter = doc! { "_id": { "$in": tokens } };
        self.read_claims("look up holders", filter, session, deadline)
            .await
    }

    /// The counters that a holder says it books; nothing if there is no such holder.
    pub(crate) async fn keys_of(
        &self,
        token: &LeaseToken,
        deadline: Instant,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let mut session = self.ordered_reads().await?;
        let tokens = [token.to_string()];
        let mut claims = self.claims(&tokens, &mut session, deadline).await?;
        Ok(claims.remove(token.as_str()).map(|claim| claim.keys))
    }

    /// The HELD holders that say they book one of these counters.
    pub(crate) async fn claims_on(
        &self,
        keys: &[&str],
        session: &mut ClientSession,
        deadline: Instant,
    ) -> Result<HashMap<String, Claim>, StoreError> {
        let filter = doc! { "levels": { "$in": keys }, "state": HolderState::Held };
        self.read_claims("look for unbooked holders", filter, session, deadline)
            .await
    }

    async fn read_claims(
        &self,
        step: &'static str,
        filter: Document,
        session: &mut ClientSession,
        deadline: Instant,
    ) -> Result<HashMap<String, Claim>, StoreError> {
        let read = Read::Committed(session);
        let found = self
            .step(step, deadline, async {
                let holders = self.holders(&read);
                read.find(holders.find(filter).projection(Claim::fields()))
                    .await
            })
            .await?;
        Ok(found
            .iter()
            .filter_map(|holder| Some((holder.get_str("_id").ok()?.to_owned(), Claim::of(holder))))
            .collect())
    }

    /// The counters that HELD holders say they book, and that are not there.
    pub(crate) async fn missing_counters(
        &self,
        deadline: Instant,
    ) -> Result<Vec<String>, StoreError> {
        let pipeline = [
            doc! { "$match": { "state": HolderState::Held } },
            doc! { "$unwind": "$levels" },
            doc! { "$group": { "_id": "$levels" } },
            doc! { "$lookup": {
                "from": COUNTERS,
                "localField": "_id",
                "foreignField": "_id",
                "pipeline": [{ "$project": { "_id": 1 } }],
                "as": "counter",
            } },
            doc! { "$match": { "counter": [] } },
        ];
        let found = self
            .step("look for missing counters", deadline, async {
                let holders = self.holders(&Read::Latest);
                Read::Latest.aggregate(holders.aggregate(pipeline)).await
            })
            .await?;
        Ok(found
            .iter()
            .filter_map(|key| Some(key.get_str("_id").ok()?.to_owned()))
            .collect())
    }
}

/// An operator's decision to end a lease, and what it was about: a lease that is another's by now is left alone.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    /// Only if it is of this tenant.
    pub tenant: Option<String>,
    /// Only if it is this user's.
    pub user: Option<String>,
    /// Only if it is held by this pod.
    pub pod: Option<PodId>,
    /// Who decides, for others to read.
    pub by: Option<String>,
    /// Why, for others to read.
    pub note: Option<String>,
}

impl Decision {
    pub(super) fn filter(&self, token: &LeaseToken) -> Document {
        let mut filter = doc! { "_id": token.as_str() };
        if let Some(tenant) = &self.tenant {
            filter.insert("tenantId", tenant);
        }
        if let Some(user) = &self.user {
            filter.insert("userId", user);
        }
        if let Some(pod) = &self.pod {
            filter.insert("pod", pod.as_str());
        }
        filter
    }

    /// Writes who decided, and why, into an expression.
    pub(super) fn sign(&self, revocation: &mut Document) {
        for (field, text) in [("by", &self.by), ("note", &self.note)] {
            if let Some(text) = text {
                revocation.insert(field, doc! { "$literal": text });
            }
        }
    }
}

pub(super) fn readable(step: &'static str, holder: Document) -> Result<HolderDoc, StoreError> {
    parse(holder).map_err(|problem| StoreError::malformed(step, problem))
}

/// A holder, or one line that names it and says what is wrong with it.
pub(super) fn parse(holder: Document) -> Result<HolderDoc, String> {
    let token = holder.get("_id").map(Bson::to_string).unwrap_or_default();
    read(holder).map_err(|problem| format!("holder {token}: {problem}"))
}

/// A holder, or what is wrong with it.
pub(crate) fn read(holder: Document) -> Result<HolderDoc, String> {
    // The error quotes the value, which may be anything.
    documents::read(holder).map_err(|error| error.chars().take(200).collect())
}

/// A holder that nobody has revoked.
fn own(token: &LeaseToken) -> Document {
    doc! {
        "_id": token.as_str(),
        "state": { "$in": [HolderState::Pending, HolderState::Held] },
    }
}
