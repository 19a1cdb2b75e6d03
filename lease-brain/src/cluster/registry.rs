use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_shared::{PodId, in_full};
use mongodb::Database;
use supervise::BootInstant;
use tokio::sync::Notify;
use tokio::time::sleep;
use uuid::Uuid;

use super::beat::{LastBeat, Late, Patience};
use super::claim::{Claim, Verdict};
use super::error::{Claimant, PodError, PodStoreError};
use super::liveness::{PodLiveness, Witness};
use super::row::{PodRow, PodStatus, Unreadable};
use super::rows::{OwnRow, PodRows, Written};
use super::settings::PodSettings;
use crate::jitter::around;

/// This process among the pods: its row, and what keeps it there.
///
/// Whoever has one runs [`keep_alive`](Self::keep_alive) beside its work and ends when that ends, and listens to
/// [`late`](Self::late).
#[derive(Debug)]
pub struct PodRegistry {
    rows: PodRows,
    pod: PodId,
    settings: PodSettings,
    state: Mutex<State>,
    late: Notify,
}

/// Locked for moments, never over an await.
#[derive(Debug)]
struct State {
    status: PodStatus,
    last: LastBeat,
}

impl PodRegistry {
    /// Writes this process into the pods, STARTING, under a fresh id. No lease may be acquired before this returns: a
    /// majority has the row then.
    ///
    /// If another pod has the node name, this waits until that one has been silent for longer than it promised, so that
    /// a crashed pod comes up again under its own name.
    ///
    /// # Errors
    /// Settings that cannot work; [`PodError::NodeNameInUse`], if the other pod goes on saying that it is there; a store
    /// that does not answer. A row that was written all the same is stale before long.
    pub async fn join(database: &Database, settings: PodSettings) -> Result<Self, PodError> {
        let settings = settings.checked()?;
        let rows = PodRows::new(database);
        until_known(|| rows.create_indexes()).await?;
        let pod = PodId::new(Uuid::new_v4().to_string()).map_err(|error| PodError::Store {
            step: "make an id for this pod",
            cause: PodStoreError::Malformed(error.to_string()),
        })?;
        let own = OwnRow {
            pod: &pod,
            settings: &settings,
            status: PodStatus::Starting,
            booted_at: None,
        };
        let last = enter(&rows, &own).await?;
        Ok(Self {
            rows,
            pod,
            settings,
            state: Mutex::new(State {
                status: PodStatus::Starting,
                last,
            }),
            late: Notify::new(),
        })
    }

    /// This process's id among the pods.
    pub fn pod(&self) -> &PodId {
        &self.pod
    }

    /// How this pod shows itself to the others.
    pub fn settings(&self) -> &PodSettings {
        &self.settings
    }

    /// How far this pod has come, whether the store knows already or not.
    pub fn status(&self) -> PodStatus {
        self.state().status
    }

    /// Says again and again that this pod is there, and writes its row anew if that is gone. A heartbeat that fails is
    /// logged and soon tried again. Ends with `Ok` after [`stopped`](Self::stopped).
    ///
    /// Dropping it at any await is safe; others take this pod for dead when its time has passed.
    ///
    /// # Errors
    /// [`PodError::NodeNameTaken`]: this pod was silent for so long that another took its place. It has to end.
    pub async fn keep_alive(&self) -> Result<(), PodError> {
        let mut last = BootInstant::now();
        let mut pause = self.settings.heartbeat;
        while self.status() != PodStatus::Stopped {
            sleep_until(last + jittered(pause, fastrand::f64())).await;
            last = BootInstant::now();
            pause = match self.report().await {
                Ok(()) => self.settings.heartbeat,
                Err(error @ PodError::NodeNameTaken(_)) => return Err(error),
                Err(error) => {
                    let error = in_full(&error);
                    tracing::warn!(pod.id = %self.pod, error, "heartbeat failed, trying again");
                    self.settings.heartbeat / 4
                }
            };
        }
        Ok(())
    }

    /// Returns when a heartbeat was acknowledged before which others may have taken this pod for dead: the last one had
    /// been sent so long ago, or the row was gone or marked as stopped. Nobody else could reach this pod meanwhile, so
    /// it has to ask about all its leases, and run its own handlers for those it lost.
    ///
    /// For one listener. What happened before the call is told as well, and several times are told as one.
    pub async fn late(&self) {
        self.late.notified().await;
    }

    /// This pod serves from now on. What cannot be written now is part of the next heartbeat, as with the two below.
    pub async fn running(&self) -> Result<(), PodError> {
        self.advance(PodStatus::Running).await
    }

    /// This pod takes nothing new from now on. It stays alive as long as it goes on saying so.
    pub async fn stopping(&self) -> Result<(), PodError> {
        self.advance(PodStatus::Stopping).await
    }

    /// This pod has ended: its node name is free, and no heartbeat brings its row back. The row stays to be seen.
    pub async fn stopped(&self) -> Result<(), PodError> {
        self.advance(PodStatus::Stopped).await
    }

    /// Removes the rows, whatever their status, of pods that were silent for an hour, and says how many. Any pod may do
    /// so at any time; one that was only paused writes itself again.
    pub async fn remove_old(&self) -> Result<u64, PodError> {
        self.rows.remove_old().await
    }

    /// Which pods are alive, as this pod sees it, and which of the others it may believe dead.
    ///
    /// # Errors
    /// A store that does not answer.
    pub async fn liveness(&self) -> Result<PodLiveness, PodError> {
        Ok(self.judge(self.rows.all().await?))
    }

    /// The same about one pod alone, for what is asked often: there may be thousands of rows.
    ///
    /// # Errors
    /// A store that does not answer.
    pub async fn liveness_of(&self, pod: &PodId) -> Result<PodLiveness, PodError> {
        Ok(self.judge(self.rows.of(&[pod, &self.pod]).await?))
    }

    fn judge(&self, rows: Vec<Result<PodRow, Unreadable>>) -> PodLiveness {
        // If this pod looks silent itself, the store was away, or its clock was put forward.
        let own = |row: &&PodRow| row.pod == self.pod;
        let looks_silent = rows
            .iter()
            .flatten()
            .find(own)
            .is_some_and(PodRow::is_stale);
        let liveness = PodLiveness::of(rows, Some(&self.pod));
        // Afterwards: the rows may have been read at the end of an outage that this pod has not noticed yet.
        let patience = Patience::of(&self.settings);
        let last = self.state().last;
        liveness.seen_by(Witness {
            in_touch_for: match looks_silent {
                true => Duration::ZERO,
                false => last.in_touch_for(BootInstant::now(), patience.out_of_touch),
            },
            promise: self.settings.stale,
        })
    }

    async fn advance(&self, to: PodStatus) -> Result<(), PodError> {
        {
            let mut state = self.state();
            state.status = state.status.max(to);
        }
        until_known(|| self.report()).await
    }

    /// Writes the own row as it is to be now, and judges whether that comes too late.
    async fn report(&self) -> Result<(), PodError> {
        let State { status, last } = *self.state();
        let own = OwnRow {
            pod: &self.pod,
            settings: &self.settings,
            status,
            booted_at: Some(last.booted_at),
        };
        let mut answer = put(&self.rows, &own).await?;
        // Further than this pod has come: somebody wrote that by hand.
        if let Put::Written(written, _) = &answer
            && written.status > self.status()
        {
            self.rows.contradict(&self.pod, written.status).await?;
            answer = put(&self.rows, &own).await?;
        }
        let (written, sent) = match answer {
            Put::Written(written, sent) => (written, sent),
            Put::NameOf(other) => return Err(PodError::NodeNameTaken(claimant(*other))),
        };
        let now = BootInstant::now();
        let patience = Patience::of(&self.settings);
        let late = {
            let mut state = self.state();
            let (last, late) = state.last.then(written, sent, now, patience);
            state.last = last;
            late
        };
        if let Some(late) = late {
            match late {
                Late::Silent(silence) => {
                    tracing::warn!(pod.id = %self.pod, ?silence, "late heartbeat: others may have taken this pod for dead");
                }
                Late::WrittenAnew => {
                    tracing::warn!(pod.id = %self.pod, "others had taken this pod for dead; it has written its row anew");
                }
            }
            self.late.notify_one();
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Before asking again what may have changed while it was answered.
const MOMENT: Duration = Duration::from_millis(20);

enum Put {
    /// The row is there, by what was sent then.
    Written(Written, BootInstant),
    /// This one has the node name.
    NameOf(Box<PodRow>),
}

/// Writes the own row, or says who has its name.
async fn put(rows: &PodRows, own: &OwnRow<'_>) -> Result<Put, PodError> {
    for _ in 0..5 {
        let sent = BootInstant::now();
        if let Some(written) = rows.put(own).await? {
            return Ok(Put::Written(written, sent));
        }
        if let Some(other) = rows.named(own.settings, own.pod).await? {
            return Ok(Put::NameOf(Box::new(other)));
        }
        // Refused for a name that nobody has any more: it went while we asked.
        sleep(MOMENT).await;
    }
    Err(PodError::Store {
        step: "write this pod's row",
        cause: PodStoreError::Malformed(
            "its node name was refused, and no other pod has it; look at the indexes of brain_pods"
                .to_owned(),
        ),
    })
}

/// Writes the first row as soon as its node name is free.
async fn enter(rows: &PodRows, own: &OwnRow<'_>) -> Result<LastBeat, PodError> {
    let mut claim = Claim::default();
    let mut waiting = false;
    loop {
        let other = match until_known(|| put(rows, own)).await? {
            Put::Written(written, sent) => return Ok(LastBeat::first(written, sent)),
            Put::NameOf(other) => other,
        };
        match claim.look(&other) {
            Verdict::Retire => {
                tracing::info!(pod.id = %other.pod, node = other.node_name, "taking the node name of a dead pod");
                if !until_known(|| rows.retire(&other.pod, own.pod)).await? {
                    sleep(MOMENT).await;
                }
            }
            Verdict::Wait(pause) => {
                if !std::mem::replace(&mut waiting, true) {
                    let node = &other.node_name;
                    tracing::info!(pod.id = %other.pod, node, "another pod has this node name; waiting for its end");
                }
                sleep(pause).await;
            }
            Verdict::Lives => return Err(PodError::NodeNameInUse(claimant(*other))),
        }
    }
}

fn claimant(other: PodRow) -> Box<Claimant> {
    Box::new(Claimant {
        cluster_id: other.cluster_id,
        node_name: other.node_name,
        pod: other.pod,
        endpoint: other
            .endpoint
            .unwrap_or_else(|| "an unknown place".to_owned()),
    })
}

/// Sends what is idempotent again while its outcome is unknown, three times in all.
async fn until_known<T, F>(mut send: impl FnMut() -> F) -> Result<T, PodError>
where
    F: Future<Output = Result<T, PodError>>,
{
    let mut tries = 0;
    loop {
        tries += 1;
        match send().await {
            Err(PodError::Store { cause, .. }) if cause.is_unknown() && tries < 3 => {
                tracing::debug!(error = %cause, "outcome unknown, sending again");
                sleep(Duration::from_millis(100)).await;
            }
            known => return known,
        }
    }
}

/// In slices, for the runtime's clock stands still while the machine is suspended, and the others' patience does not.
async fn sleep_until(moment: BootInstant) {
    const SLICE: Duration = Duration::from_secs(1);
    while !moment.has_passed() {
        sleep(moment.remaining().min(SLICE)).await;
    }
}

/// A tenth more or less, so that pods do not beat in step. More, and three lost beats would not be three any more.
fn jittered(pause: Duration, random: f64) -> Duration {
    around(pause, 0.9..=1.1, random)
}

#[test]
fn pause_between_heartbeats_is_a_tenth_shorter_or_longer_at_most() {
    let pause = Duration::from_secs(10);
    for (random, millis) in [(0.0, 9_000), (0.5, 10_000), (1.0, 11_000)] {
        let jittered = jittered(pause, random);
        assert_eq!(jittered.as_millis(), millis, "{random}");
    }
}
