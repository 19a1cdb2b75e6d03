use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use lease_shared::PodId;
use mongodb::Database;
use mongodb::bson::DateTime;
use serde::Serialize;

use super::error::PodError;
use super::row::{PodRow, PodStatus, Unreadable, promised};
use super::rows::{PodRows, ROUND_TRIP};

/// Which pods were alive at one moment. The sweep, the dispatcher and the views all judge by this.
///
/// A pod is alive if it has not stopped, has not been silent for longer than its own row promises (in the server's
/// time), and says where it can be reached. The pod that asks is always alive. One without a row, or whose row cannot be
/// read, is not; but if such a row says that the pod was heard a moment ago, it is not dead either, for its next heartbeat
/// mends the row.
///
/// Not to be alive is not to be dead: after an outage of the store every pod looks silent until its next heartbeat, and
/// whoever comes first would take all the others' leases. So a pod *believes* another dead only when it has itself been
/// in touch with the store for as long as that one may be silent ([`is_dead`](Self::is_dead)).
#[derive(Debug, Clone)]
pub struct PodLiveness {
    own: Option<PodId>,
    witness: Option<Witness>,
    pods: Vec<PodView>,
    by_id: HashMap<PodId, usize>,
    unreadable: Vec<String>,
    /// Those whose rows cannot be read and who were heard.
    heard: HashSet<PodId>,
}

/// What the pod that asks has seen of the store itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Witness {
    /// For how long the store has answered it without a long break.
    pub(super) in_touch_for: Duration,
    /// For how long a pod may be silent that has no row to say so.
    pub(super) promise: Duration,
}

impl Witness {
    /// Has the store been there for so long that a living pod would have been heard? A heartbeat that was under way when
    /// it came back may hang until its time is over; after that, its pod has the time that it promised.
    fn would_have_heard(self, promise: Duration) -> bool {
        self.in_touch_for >= promise.saturating_add(ROUND_TRIP)
    }
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
        Ok(Self::of(PodRows::new(database).all().await?, own))
    }

    pub(super) fn of(read: Vec<Result<PodRow, Unreadable>>, own: Option<&PodId>) -> Self {
        let (mut unreadable, mut heard) = (Vec::new(), HashSet::new());
        let mut rows = Vec::new();
        for row in read {
            match row {
                Ok(row) => rows.push(row),
                Err(row) => {
                    unreadable.push(row.problem);
                    heard.extend(row.heard);
                }
            }
        }
        Self {
            unreadable,
            heard,
            ..Self::of_rows(rows, own)
        }
    }

    pub(super) fn seen_by(self, witness: Witness) -> Self {
        Self {
            witness: Some(witness),
            ..self
        }
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
            witness: None,
            by_id: by_id.map(|(at, view)| (view.pod.clone(), at)).collect(),
            pods,
            unreadable: Vec::new(),
            heard: HashSet::new(),
        }
    }

    /// Is this pod alive?
    pub fn is_alive(&self, pod: &PodId) -> bool {
        self.own.as_ref() == Some(pod) || self.view(pod).is_some_and(|view| view.alive)
    }

    /// Is this pod dead for certain? It said that it has stopped, or it is not alive and would have been heard if it
    /// were. Whoever asks without being a pod has seen nothing of the store before, and takes what is not alive for dead.
    pub fn is_dead(&self, pod: &PodId) -> bool {
        if self.is_alive(pod) || self.heard.contains(pod) {
            return false;
        }
        let Some(witness) = self.witness else {
            return true;
        };
        match self.view(pod) {
            Some(view) if view.status == PodStatus::Stopped => true,
            Some(view) => witness.would_have_heard(view.promise()),
            None => witness.would_have_heard(witness.promise),
        }
    }

    /// Where this pod can be reached, unless it is dead.
    pub fn endpoint(&self, pod: &PodId) -> Option<&str> {
        let view = self.view(pod).filter(|_| !self.is_dead(pod))?;
        view.endpoint.as_deref().filter(|at| !at.is_empty())
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
    /// For how long it may be silent; a row that says more than any may is not believed.
    fn promise(&self) -> Duration {
        promised(self.stale_millis)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pod: &str, status: PodStatus, silent_for: i64) -> PodRow {
        PodRow {
            pod: PodId::new(pod).unwrap(),
            cluster_id: "default".to_owned(),
            node_name: pod.to_owned(),
            endpoint: Some(format!("http://{pod}")),
            status,
            booted_at: DateTime::from_millis(0),
            last_heartbeat_at: DateTime::from_millis(-1000 * silent_for),
            stale_millis: 30_000,
            written_at: DateTime::from_millis(0),
            version: String::new(),
            labels: BTreeMap::default(),
            now: DateTime::from_millis(0),
        }
    }

    #[test]
    fn silent_pod_is_dead_only_to_who_would_have_heard_it() {
        let (running, stopped) = (PodStatus::Running, PodStatus::Stopped);
        // How far it has come, for how long it was silent, for how long the witness was in touch, and whether it is dead.
        let table = [
            (running, 29, 3600, false),
            (running, 31, 0, false),
            (running, 3600, 34, false),
            (running, 31, 35, true),
            (stopped, 1, 0, true),
        ];
        let (own, other) = (PodId::new("own").unwrap(), PodId::new("b").unwrap());
        for (status, silent_for, in_touch, dead) in table {
            let liveness = PodLiveness::of_rows([row("b", status, silent_for)], Some(&own));
            let alone = liveness.is_dead(&other);
            assert_eq!(alone, !liveness.is_alive(&other), "to who is no pod");
            let seen = liveness.seen_by(Witness {
                in_touch_for: Duration::from_secs(in_touch),
                promise: Duration::from_secs(60),
            });
            let case = format!("{status:?} {silent_for} {in_touch}");
            assert_eq!(seen.is_dead(&other), dead, "{case}");
            assert_eq!(seen.endpoint(&other).is_none(), dead, "{case}");
            assert!(!seen.is_dead(&own), "a pod never takes itself for dead");
            // Without a row, by the witness's own promise.
            let unknown = PodId::new("unknown").unwrap();
            assert!(!seen.is_dead(&unknown) || in_touch > 64, "{case}");
        }
    }
}
