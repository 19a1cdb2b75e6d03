use std::collections::{BTreeMap, HashMap};

use lease_shared::PodId;
use mongodb::Database;
use mongodb::bson::DateTime;
use serde::Serialize;

use super::error::PodError;
use super::row::{PodRow, PodStatus};
use super::rows::PodRows;

/// Which pods were alive at one moment. The sweep, the dispatcher and the views all judge by this.
///
/// A pod is alive if it has not stopped, has not been silent for longer than its own row promises (in the server's
/// time), and says where it can be reached. The pod that asks is always alive. One without a row, or whose row cannot be
/// read, is dead.
#[derive(Debug, Clone)]
pub struct PodLiveness {
    own: Option<PodId>,
    pods: Vec<PodView>,
    by_id: HashMap<PodId, usize>,
    unreadable: Vec<String>,
}

/// One pod as people see it. Times are the server's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// Its identity, a new one for each process.
    pub pod: PodId,
    /// Its cluster.
    pub cluster_id: String,
    /// Its name, which it keeps when it is started again.
    pub node_name: String,
    /// Is it alive?
    pub alive: bool,
    /// How far it has come.
    pub status: PodStatus,
    /// The URL at which others reach it.
    pub endpoint: Option<String>,
    /// Seconds since it last said that it is there.
    pub last_beat_seconds: u64,
    /// For how long it may be silent, by its own promise.
    pub stale_millis: i64,
    /// When its process started.
    pub booted_at: String,
    /// When it last said that it is there.
    pub last_heartbeat_at: String,
    /// The version of its program.
    pub version: String,
    /// What its operators want to see with it.
    pub labels: BTreeMap<String, String>,
}

impl PodLiveness {
    /// Reads all pods, of all clusters, for `own`, or for somebody who is none.
    ///
    /// # Errors
    /// A store that does not answer. A row that cannot be read is none; it is listed apart.
    pub async fn read(database: &Database, own: Option<&PodId>) -> Result<Self, PodError> {
        Self::look(&PodRows::new(database), own).await
    }

    pub(super) async fn look(pods: &PodRows, own: Option<&PodId>) -> Result<Self, PodError> {
        let mut rows = Vec::new();
        let mut unreadable = Vec::new();
        for row in pods.all().await? {
            match row {
                Ok(row) => rows.push(row),
                Err(problem) => unreadable.push(problem),
            }
        }
        Ok(Self {
            unreadable,
            ..Self::of_rows(rows, own)
        })
    }

    /// What follows from these rows.
    pub fn of_rows(rows: impl IntoIterator<Item = PodRow>, own: Option<&PodId>) -> Self {
        let mut pods: Vec<PodView> = rows.into_iter().map(|row| PodView::of(row, own)).collect();
        // Under one name the newest comes first; the others are those it replaced.
        pods.sort_by(|a, b| {
            (&a.cluster_id, &a.node_name, &b.booted_at, &a.pod).cmp(&(
                &b.cluster_id,
                &b.node_name,
                &a.booted_at,
                &b.pod,
            ))
        });
        let by_id = pods.iter().enumerate();
        Self {
            own: own.cloned(),
            by_id: by_id.map(|(at, view)| (view.pod.clone(), at)).collect(),
            pods,
            unreadable: Vec::new(),
        }
    }

    /// Is this pod alive?
    pub fn is_alive(&self, pod: &PodId) -> bool {
        self.own.as_ref() == Some(pod) || self.view(pod).is_some_and(|view| view.alive)
    }

    /// Where this pod can be reached, if it is alive.
    pub fn endpoint(&self, pod: &PodId) -> Option<&str> {
        self.view(pod)
            .filter(|view| view.alive)
            .and_then(|view| view.endpoint.as_deref())
    }

    /// The name of this pod, dead or alive, if its row is still there.
    pub fn node_name(&self, pod: &PodId) -> Option<&str> {
        self.view(pod).map(|view| view.node_name.as_str())
    }

    /// All pods, by cluster and name.
    pub fn pods(&self) -> &[PodView] {
        &self.pods
    }

    /// One line for each row that could not be read.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    fn view(&self, pod: &PodId) -> Option<&PodView> {
        self.by_id.get(pod).and_then(|at| self.pods.get(*at))
    }
}

impl PodView {
    fn of(row: PodRow, own: Option<&PodId>) -> Self {
        let reachable = row.endpoint.as_ref().is_some_and(|at| !at.is_empty());
        let there = row.status != PodStatus::Stopped && !row.is_stale() && reachable;
        Self {
            alive: there || own == Some(&row.pod),
            last_beat_seconds: row.silence().as_secs(),
            booted_at: text(row.booted_at),
            last_heartbeat_at: text(row.last_heartbeat_at),
            pod: row.pod,
            cluster_id: row.cluster_id,
            node_name: row.node_name,
            status: row.status,
            endpoint: row.endpoint,
            stale_millis: row.stale_millis,
            version: row.version,
            labels: row.labels,
        }
    }
}

fn text(time: DateTime) -> String {
    time.try_to_rfc3339_string()
        .unwrap_or_else(|_| time.to_string())
}
