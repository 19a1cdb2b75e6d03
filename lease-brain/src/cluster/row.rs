//! The shape of a row of `brain_pods`, and when it is stale. Field names that queries use stand here and in `rows`.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_shared::PodId;
use mongodb::bson::{Bson, DateTime, Document, deserialize_from_document, doc};
use serde::{Deserialize, Serialize};

use super::settings::KEPT;

/// How far a pod has come in its life. It never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PodStatus {
    /// Its row is there, it does not serve yet.
    Starting,
    /// It serves.
    Running,
    /// It gives back what it holds, and takes nothing new.
    Stopping,
    /// It has ended, or was taken for dead by another pod of its name.
    Stopped,
}

impl PodStatus {
    pub(super) const IN_ORDER: [Self; 4] =
        [Self::Starting, Self::Running, Self::Stopping, Self::Stopped];
    /// Those that keep their node name from others.
    pub(super) const ACTIVE: [Self; 3] = [Self::Starting, Self::Running, Self::Stopping];

    /// The status as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "STARTING",
            Self::Running => "RUNNING",
            Self::Stopping => "STOPPING",
            Self::Stopped => "STOPPED",
        }
    }
}

impl From<PodStatus> for Bson {
    fn from(status: PodStatus) -> Self {
        Self::String(status.as_str().to_owned())
    }
}

/// One pod as stored, and the server's clock at the time of reading.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    /// Its identity, a new one for each process.
    #[serde(rename = "_id")]
    pub pod: PodId,
    /// Its cluster.
    pub cluster_id: String,
    /// Its name, which it keeps when it is started again.
    pub node_name: String,
    /// The URL at which others reach it.
    pub endpoint: Option<String>,
    /// How far it has come.
    pub status: PodStatus,
    /// When its process first wrote this row.
    pub booted_at: DateTime,
    /// When it last said that it is there.
    pub last_heartbeat_at: DateTime,
    /// For how long it may be silent, by its own promise.
    pub stale_millis: i64,
    /// Since when this row is there without a break. Later than `bootedAt` if it had been removed, or taken for dead.
    pub written_at: DateTime,
    /// The version of its program.
    #[serde(default)]
    pub version: String,
    /// What its operators want to see with it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The server's clock when this was read.
    pub now: DateTime,
}

/// How long ago a pod was heard whose row does not say how long it may be silent, and which still may be alive.
const A_MOMENT: Duration = Duration::from_secs(30);

/// A row that cannot be read whole.
#[derive(Debug, Clone)]
pub(super) struct Unreadable {
    /// Which one, and what is wrong with it, in one line.
    pub(super) problem: String,
    /// The pod, if it was heard a moment ago all the same: its next heartbeat mends the row.
    pub(super) heard: Option<PodId>,
}

impl Unreadable {
    fn of(row: &Document, error: &str) -> Self {
        let id = row.get("_id").map(ToString::to_string);
        let problem = format!("pod {}: {error}", id.unwrap_or_default());
        let pod = row.get_str("_id").ok().and_then(|id| PodId::new(id).ok());
        let date = |field| row.get_datetime(field).ok().copied();
        let silent_for = date("lastHeartbeatAt")
            .zip(date("now"))
            .map(|(heard, now)| since(heard, now).max(since(now, heard)));
        let stopped = row
            .get_str("status")
            .is_ok_and(|status| status == PodStatus::Stopped.as_str());
        let promise = match row.get("staleMillis") {
            Some(Bson::Int64(millis)) => promised(*millis),
            Some(Bson::Int32(millis)) => promised((*millis).into()),
            _ => A_MOMENT,
        };
        let heard = !stopped && silent_for.is_some_and(|silence| silence <= promise);
        Self {
            problem,
            heard: pod.filter(|_| heard),
        }
    }
}

impl PodRow {
    /// Reads a stored row.
    pub(super) fn parse(row: Document) -> Result<Self, Unreadable> {
        deserialize_from_document(row.clone())
            .map_err(|error| Unreadable::of(&row, &error.to_string()))
    }

    /// How long ago it last said that it is there.
    pub fn silence(&self) -> Duration {
        since(self.last_heartbeat_at, self.now)
    }

    /// Has it been silent for longer than it promised? `stale` says the same to the server.
    ///
    /// A heartbeat from the future is that of a primary whose clock was ahead; one from beyond an hour would keep a dead
    /// pod alive, and its name taken, for who knows how long.
    pub fn is_stale(&self) -> bool {
        self.silence() > self.promise() || since(self.now, self.last_heartbeat_at) > KEPT
    }

    /// How long it may be silent. A row that promises more than any may would never be taken for dead.
    pub(super) fn promise(&self) -> Duration {
        promised(self.stale_millis)
    }
}

pub(super) fn promised(stale_millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(stale_millis).unwrap_or(0)).min(KEPT)
}

/// The condition of [`PodRow::is_stale`] for a filter, in the server's clock.
pub(super) fn stale() -> Document {
    let promise = doc! { "$max": [0, { "$min": ["$staleMillis", millis(KEPT)] }] };
    let mut stale = silent_for(promise.into());
    stale.insert("staleMillis", doc! { "$type": "number" });
    stale
}

/// The condition "silent for so long that nobody wants to see it any more".
pub(super) fn old() -> Document {
    silent_for(millis(KEPT).into())
}

fn silent_for(limit: Bson) -> Document {
    let before = doc! { "$lt": ["$lastHeartbeatAt", { "$subtract": ["$$NOW", limit] }] };
    let beyond = doc! { "$gt": ["$lastHeartbeatAt", { "$add": ["$$NOW", millis(KEPT)] }] };
    doc! {
        // A missing date compares as less than any date.
        "lastHeartbeatAt": { "$type": "date" },
        "$expr": { "$or": [before, beyond] },
    }
}

/// Zero if the earlier one is the later.
pub(super) fn since(earlier: DateTime, later: DateTime) -> Duration {
    let millis = later
        .timestamp_millis()
        .saturating_sub(earlier.timestamp_millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
