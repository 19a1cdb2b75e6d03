//! The collection `brain_pods`, one conditional command per function.

use std::time::Duration;

use futures_util::TryStreamExt;
use lease_shared::PodId;
use mongodb::bson::{Bson, DateTime, Document, deserialize_from_document, doc};
use mongodb::error::Error;
use mongodb::options::{
    Acknowledgment, CollectionOptions, IndexOptions, ReadConcern, ReadPreference, ReturnDocument,
    SelectionCriteria, WriteConcern,
};
use mongodb::{Collection, Database, IndexModel};
use serde::Deserialize;

use super::error::{PodError, PodStoreError};
use super::row::{self, PodRow, PodStatus, Unreadable, millis};
use super::settings::PodSettings;

const PODS: &str = "brain_pods";

/// The time that one round trip has, whatever the server does: the driver has no socket time-out.
pub(super) const ROUND_TRIP: Duration = Duration::from_millis(4500);

/// How long the server works on something that nobody waits for any more.
const MAX_TIME: Duration = Duration::from_secs(4);

#[derive(Debug, Clone)]
pub(super) struct PodRows {
    pods: Collection<Document>,
}

/// What a pod says of itself.
#[derive(Debug)]
pub(super) struct OwnRow<'a> {
    pub(super) pod: &'a PodId,
    pub(super) settings: &'a PodSettings,
    pub(super) status: PodStatus,
    /// As its first write was answered, so that a row written anew has it too.
    pub(super) booted_at: Option<DateTime>,
}

/// What a write of the own row made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written {
    pub(super) status: PodStatus,
    pub(super) booted_at: DateTime,
    /// Since when the row is there without a break.
    pub(super) written_at: DateTime,
    /// How long this pod had been silent by then, by the server's clock.
    pub(super) silent_millis: i64,
}

impl PodRows {
    pub(super) fn new(database: &Database) -> Self {
        let majority = WriteConcern::builder()
            .w(Acknowledgment::Majority)
            .journal(true)
            .w_timeout(Duration::from_secs(4))
            .build();
        let options = CollectionOptions::builder()
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(ReadConcern::local())
            .write_concern(majority)
            .build();
        Self {
            pods: database.collection_with_options(PODS, options),
        }
    }

    /// The server itself keeps a node name from a second pod, as long as the first has not stopped.
    pub(super) async fn create_indexes(&self) -> Result<(), PodError> {
        let active = doc! { "status": { "$in": PodStatus::ACTIVE.to_vec() } };
        let unique = IndexOptions::builder()
            .name("node_name".to_owned())
            .unique(true)
            .partial_filter_expression(active)
            .build();
        let index = IndexModel::builder()
            .keys(doc! { "clusterId": 1, "nodeName": 1 })
            .options(unique)
            .build();
        round_trip("create the index of the pods", async {
            self.pods.create_index(index).await
        })
        .await
        .map(drop)
    }

    /// Writes the whole row of this pod, whether it is there or not, and gives it back as it is then. Nothing: another
    /// pod has the node name.
    ///
    /// Safe to be sent again, and at any later moment: the status only goes forward, so that a late copy of a heartbeat
    /// undoes nothing, and a row that this pod itself stopped stays as it is. One that *another* stopped (`stoppedBy`)
    /// counts as not there; if the name has gone to somebody else, the index refuses.
    pub(super) async fn put(&self, own: &OwnRow<'_>) -> Result<Option<Written>, PodError> {
        let step = "write this pod's row";
        let answer = round_trip(step, async {
            self.pods
                .find_one_and_update(doc! { "_id": own.pod.as_str() }, vec![own.write()])
                .upsert(true)
                .return_document(ReturnDocument::After)
                .max_time(MAX_TIME)
                .await
        });
        let row = match answer.await {
            Ok(row) => row.unwrap_or_default(),
            Err(PodError::Store { cause, .. }) if cause.is_duplicate() => return Ok(None),
            Err(error) => return Err(error),
        };
        match deserialize_from_document(row) {
            Ok(written) => Ok(Some(written)),
            Err(error) => Err(PodError::Store {
                step,
                cause: PodStoreError::Malformed(error.to_string()),
            }),
        }
    }

    /// The pod that has this node name, unless it is `own`.
    pub(super) async fn named(
        &self,
        settings: &PodSettings,
        own: &PodId,
    ) -> Result<Option<PodRow>, PodError> {
        let filter = doc! {
            "_id": { "$ne": own.as_str() },
            "clusterId": &settings.cluster_id,
            "nodeName": &settings.node_name,
            "status": { "$in": PodStatus::ACTIVE.to_vec() },
        };
        let rows = self
            .read("look for the pod of this node name", filter)
            .await?;
        let Some(row) = rows.into_iter().next() else {
            return Ok(None);
        };
        row.map(Some).map_err(|row| PodError::Unreadable {
            node_name: settings.node_name.clone(),
            problem: row.problem,
        })
    }

    /// Takes the node name from a pod that is stale, which the filter says once more: one that has said in the meantime
    /// that it is there keeps it. False: it was not stale any more, or had stopped.
    pub(super) async fn retire(&self, pod: &PodId, own: &PodId) -> Result<bool, PodError> {
        let mut filter = row::stale();
        filter.insert("_id", pod.as_str());
        filter.insert("status", doc! { "$in": PodStatus::ACTIVE.to_vec() });
        let stopped = doc! { "$set": { "status": PodStatus::Stopped, "stoppedBy": own.as_str() } };
        let updated = round_trip("mark a dead pod as stopped", async {
            self.pods.update_one(filter, stopped).await
        });
        Ok(updated.await?.matched_count == 1)
    }

    /// The row says of this pod what only it may say and has not. From then on the row counts as not there.
    pub(super) async fn contradict(&self, own: &PodId, status: PodStatus) -> Result<(), PodError> {
        let filter = doc! { "_id": own.as_str(), "status": status };
        let by_another = doc! { "$set": { "stoppedBy": "another" } };
        let updated = round_trip("contradict what this pod's row says", async {
            self.pods.update_one(filter, by_another).await
        });
        updated.await.map(drop)
    }

    pub(super) async fn remove_old(&self) -> Result<u64, PodError> {
        let removed = round_trip("remove the rows of old pods", async {
            self.pods.delete_many(row::old()).await
        });
        Ok(removed.await?.deleted_count)
    }

    pub(super) async fn all(&self) -> Result<Vec<Result<PodRow, Unreadable>>, PodError> {
        self.read("read the pods", doc! {}).await
    }

    pub(super) async fn of(
        &self,
        pods: &[&PodId],
    ) -> Result<Vec<Result<PodRow, Unreadable>>, PodError> {
        let ids: Vec<&str> = pods.iter().map(|pod| pod.as_str()).collect();
        self.read("read some pods", doc! { "_id": { "$in": ids } })
            .await
    }

    async fn read(
        &self,
        step: &'static str,
        filter: Document,
    ) -> Result<Vec<Result<PodRow, Unreadable>>, PodError> {
        let pipeline = [
            doc! { "$match": filter },
            doc! { "$set": { "now": "$$NOW" } },
        ];
        let rows: Vec<Document> = round_trip(step, async {
            let found = self.pods.aggregate(pipeline).max_time(MAX_TIME).await?;
            found.try_collect().await
        })
        .await?;
        Ok(rows.into_iter().map(PodRow::parse).collect())
    }
}

impl OwnRow<'_> {
    /// One stage, so that every expression sees the row as it was.
    fn write(&self) -> Document {
        let literal = |text: &str| doc! { "$literal": text };
        let order = || doc! { "$literal": PodStatus::IN_ORDER.to_vec() };
        // How far the row says that this pod has come; -1 if it is not there, or not by this pod's own word.
        let come = doc! { "$cond": [
            { "$ifNull": ["$stoppedBy", false] },
            -1,
            { "$indexOfArray": [order(), { "$ifNull": ["$status", ""] }] },
        ] };
        let stopped = doc! { "$eq": [&come, PodStatus::Stopped as i32] };
        let anew = doc! { "$eq": [&come, -1] };
        let further = doc! { "$max": [&come, self.status as i32] };
        // Before this beat, by the clock that the others judge by: a new primary's may be ahead.
        let silent = doc! { "$dateDiff": {
            "startDate": "$lastHeartbeatAt", "endDate": "$$NOW", "unit": "millisecond",
        } };
        let is_date = |field: &str| doc! { "$eq": [{ "$type": field }, "date"] };
        let booted_at = match self.booted_at {
            Some(at) => doc! { "$literal": at }.into(),
            None => Bson::from("$$NOW"),
        };
        let labels: Document = self
            .settings
            .labels
            .iter()
            .map(|(label, value)| (label.clone(), Bson::from(value.as_str())))
            .collect();
        doc! { "$set": {
            "clusterId": literal(&self.settings.cluster_id),
            "nodeName": literal(&self.settings.node_name),
            "endpoint": literal(&self.settings.endpoint),
            "status": { "$arrayElemAt": [order(), further] },
            "bootedAt": { "$cond": [is_date("$bootedAt"), "$bootedAt", booted_at] },
            "lastHeartbeatAt": { "$cond": [&stopped, "$lastHeartbeatAt", "$$NOW"] },
            "silentMillis": { "$switch": {
                "branches": [
                    { "case": stopped, "then": { "$ifNull": ["$silentMillis", 0_i64] } },
                    { "case": is_date("$lastHeartbeatAt"), "then": silent },
                ],
                "default": 0_i64,
            } },
            "staleMillis": { "$literal": millis(self.settings.stale) },
            // Who could not read it may have taken the pod for dead.
            "writtenAt": { "$cond": [
                { "$or": [anew, { "$not": [is_date("$writtenAt")] }] }, "$$NOW", "$writtenAt",
            ] },
            "version": env!("CARGO_PKG_VERSION"),
            "labels": { "$literal": labels },
            "stoppedBy": "$$REMOVE",
        } }
    }
}

async fn round_trip<T>(
    step: &'static str,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, PodError> {
    let cause = match tokio::time::timeout(ROUND_TRIP, answer).await {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => PodStoreError::Driver(Box::new(error)),
        Err(_) => PodStoreError::Deadline,
    };
    Err(PodError::Store { step, cause })
}
