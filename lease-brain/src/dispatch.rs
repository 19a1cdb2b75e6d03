//! Brings revocations and handlers together: finds what is due, claims it, and has it cleaned up where the resource is.
//!
//! What counts is the REVOKING document in the store. What a reaper of this process hands over only saves the time until
//! it is found there; a revocation that is dropped here, or whose pod dies over it, is found by any pod. A clean-up that
//! does not succeed is noted in its document and comes up again by itself. Other processes do the same at the same time:
//! the claim decides.
//!
//! Not done here: deciding what is revoked (the sweeper, acquirers, operators).

mod peer;
mod places;
mod route;
mod runner;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use lease_shared::{
    Cleanup, Cleanups, Due, LeaseType, NextTry, PodId, Revocation, RevocationListener, SlotReturn,
    StoreError, in_full,
};
use supervise::BootInstant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::{PodLiveness, PodRegistry};
use crate::handlers::HandlerRegistry;
use crate::jitter::around;
use peer::Asked;
pub(crate) use peer::{AFTERWARDS, Peers};
use places::{Places, WAITING};
use route::{Refused, Route, Whose, refused, route};
pub(crate) use runner::Runner;

/// How often the store is asked for what is due: the resolution of all pauses between tries.
const SCAN: Duration = Duration::from_secs(2);
/// The same while there is more than one look brings.
const SCAN_ON: Duration = Duration::from_millis(200);
/// How many revocations of this process wait to be taken up. More are found in the store.
const ARRIVALS: usize = 1024;

/// The longest pause between two tries to end what ran under a lost lease.
const LOST: Duration = Duration::from_secs(600);

/// Where the reapers of this process leave what they revoked.
#[derive(Debug)]
pub(crate) struct Arrivals {
    registry: HandlerRegistry,
    queue: mpsc::Sender<Due>,
}

pub(crate) fn arrivals(registry: &HandlerRegistry) -> (Arrivals, mpsc::Receiver<Due>) {
    let (queue, arriving) = mpsc::channel(ARRIVALS);
    let registry = registry.clone();
    (Arrivals { registry, queue }, arriving)
}

impl RevocationListener for Arrivals {
    fn slot_return(&self, lease_type: &LeaseType) -> Option<SlotReturn> {
        Some(self.registry.get(lease_type)?.slot_return())
    }

    fn revoked(&self, revocation: Revocation) {
        // A full queue loses nothing.
        let _ = self.queue.try_send(Due {
            token: revocation.token,
            lease_type: revocation.lease_type,
            tenant: revocation.tenancy.tenant().to_owned(),
        });
    }
}

/// Cleans up behind revoked leases.
#[derive(Debug, Clone)]
pub(crate) struct Dispatcher {
    pub(crate) pod: PodId,
    pub(crate) registry: Arc<PodRegistry>,
    pub(crate) cleanups: Cleanups,
    pub(crate) types: Arc<[LeaseType]>,
    pub(crate) runner: Runner,
    pub(crate) peers: Peers,
}

/// Why a clean-up was not done.
enum NotDone {
    /// It was tried here, for another pod or for none.
    Here(String),
    /// The living pod of the holder ran its handler, and that did not succeed.
    ByPod(String),
    /// That pod could not be asked, or it is not known what it did.
    NotAsked(String),
}

impl NotDone {
    fn problem(&self) -> &str {
        match self {
            Self::Here(problem) | Self::ByPod(problem) | Self::NotAsked(problem) => problem,
        }
    }

    /// Writes it down, with what the clean-up waits for now.
    async fn note(&self, cleanup: Cleanup) -> Result<NextTry, StoreError> {
        match self {
            Self::Here(problem) => cleanup.failed(problem, false).await,
            Self::ByPod(problem) => cleanup.failed(problem, true).await,
            Self::NotAsked(problem) => cleanup.leave_to_pod(problem).await,
        }
    }
}

impl Dispatcher {
    /// Cleans up until it is told to stop; then takes up nothing more, and waits for what runs.
    pub(crate) async fn run(self, mut arriving: mpsc::Receiver<Due>, stop: CancellationToken) {
        let mut places = Places::default();
        let mut work = JoinSet::new();
        let mut scan = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            while let Some(due) = places.next() {
                let dispatcher = self.clone();
                work.spawn(async move {
                    // A fault of our own must not take the process along, or the next pod would be next.
                    let work = AssertUnwindSafe(dispatcher.clean_up(&due)).catch_unwind();
                    if work.await.is_err() {
                        tracing::error!(lease.token = %due.token, "a clean-up panicked; its claim runs out");
                    }
                    due
                });
            }
            tokio::select! {
                () = stop.cancelled() => break,
                Some(due) = arriving.recv() => places.add(due),
                Some(Ok(due)) = work.join_next() => places.ended(&due),
                () = &mut scan => {
                    let pause = match self.look(&mut places).await {
                        true => SCAN_ON,
                        false => SCAN,
                    };
                    scan.set(tokio::time::sleep(around(pause, 0.75..=1.25, fastrand::f64())));
                }
            }
        }
        while work.join_next().await.is_some() {}
    }

    /// Finds what is due in the store, and what others leave to this pod, and says whether there is likely to be more. What
    /// cannot be asked now is asked again soon.
    async fn look(&self, places: &mut Places) -> bool {
        let limit = i64::try_from(WAITING).unwrap_or(i64::MAX);
        let found = async {
            // First, for nobody else can do these.
            let mut found = self.cleanups.left_to(&self.pod, &self.types, limit).await?;
            found.extend(self.cleanups.due(&self.types, limit).await?);
            Ok::<_, StoreError>(found)
        };
        match found.await {
            Ok(due) => {
                let more = due.len() >= WAITING;
                due.into_iter().for_each(|due| places.add(due));
                more
            }
            Err(error) => {
                tracing::warn!(error = in_full(&error), "could not look for due clean-ups");
                false
            }
        }
    }

    /// Claims one clean-up and does it. Whatever comes of it stands in its document afterwards; if that cannot be
    /// written, the claim runs out.
    async fn clean_up(&self, due: &Due) -> Ended {
        let until = BootInstant::now() + Cleanups::CLAIM;
        let mut cleanup = match self.cleanups.claim(&due.token, &self.pod).await {
            Ok(Some(cleanup)) => cleanup,
            Ok(None) => return Ended::NotTried,
            Err(error) => {
                tracing::warn!(error = in_full(&error), lease.token = %due.token, "could not claim a clean-up");
                return Ended::NotTried;
            }
        };
        let token = cleanup.revocation.token.clone();
        let attempts = cleanup.attempts;
        let done = self.done(&mut cleanup, until).await;
        let ended = match done {
            Ok(_) => Ended::Done,
            Err(_) => Ended::Failed,
        };
        let written = match done {
            Ok(how) => {
                let finished = cleanup.finish().await;
                if let Ok(true) = finished {
                    tracing::info!(lease.token = %token, lease.r#type = %due.lease_type, attempts, how, "cleaned up");
                }
                finished.map(drop)
            }
            Err(not_done) => {
                let problem = not_done.problem();
                let next = not_done.note(cleanup).await;
                match &next {
                    Ok(next) if next.failed => tracing::error!(
                        lease.token = %token, lease.r#type = %due.lease_type, attempts, problem,
                        "a clean-up failed; `lease cleanup list` shows it, it is tried hourly"
                    ),
                    _ => tracing::warn!(
                        lease.token = %token, lease.r#type = %due.lease_type, attempts, problem,
                        "a clean-up did not succeed and is tried again"
                    ),
                }
                next.map(drop)
            }
        };
        if let Err(error) = written {
            tracing::warn!(error = in_full(&error), lease.token = %token, "what came of a clean-up could not be written");
        }
        ended
    }

    /// Follows the dispatch matrix, as long as the claim lasts. Says how it was done.
    async fn done(
        &self,
        cleanup: &mut Cleanup,
        until: BootInstant,
    ) -> Result<&'static str, NotDone> {
        let revocation = cleanup.revocation.clone();
        let liveness = match &revocation.pod {
            Some(pod) if *pod != self.pod => {
                Some(self.registry.liveness_of(pod).await.map_err(|error| {
                    NotDone::Here(format!(
                        "whether pod {pod} lives is not known: {}",
                        in_full(&error)
                    ))
                })?)
            }
            _ => None,
        };
        let whose = self.whose(&revocation, liveness.as_ref())?;
        match route(whose, revocation.pod_bound) {
            Route::Nothing => Ok("its resource died with its pod"),
            Route::Here => self.here(revocation, until).await,
            Route::Peer(endpoint) => {
                let Some(pod) = &revocation.pod else {
                    return Err(NotDone::Here("a peer without a pod".to_owned()));
                };
                let refused = refused(revocation.pod_bound);
                let asked = match refused {
                    Refused::Here => self.peers.surely(endpoint, pod, cleanup).await,
                    Refused::AskAgain => self.peers.once(endpoint, pod, cleanup).await,
                };
                match asked {
                    Asked::Done => Ok("by the handler in its pod"),
                    Asked::HandlerFailed(problem) => Err(NotDone::ByPod(problem)),
                    Asked::NotDone(problem) | Asked::Unknown(problem) => match refused {
                        Refused::AskAgain => Err(NotDone::NotAsked(problem)),
                        Refused::Here => {
                            tracing::info!(lease.token = %revocation.token, problem, "so its handler runs here");
                            let until = self.renew(cleanup).await?;
                            self.here(revocation.clone(), until).await
                        }
                    },
                }
            }
        }
    }

    async fn here(
        &self,
        revocation: Revocation,
        until: BootInstant,
    ) -> Result<&'static str, NotDone> {
        let of_this_pod = revocation.pod.as_ref() == Some(&self.pod);
        let ran = self.runner.run(revocation, until).await;
        ran.map(|()| "by the handler in this pod")
            .map_err(|problem| match of_this_pod {
                true => NotDone::ByPod(problem),
                false => NotDone::Here(problem),
            })
    }

    /// Asking the pod took most of the claim's time, and the claim's name was told to it: should it hear of that later, it
    /// must not begin. Says until when the claim lasts.
    async fn renew(&self, cleanup: &mut Cleanup) -> Result<BootInstant, NotDone> {
        let until = BootInstant::now() + Cleanups::CLAIM;
        match cleanup.renew().await {
            Ok(true) => Ok(until),
            Ok(false) => Err(NotDone::Here("the claim ran out".to_owned())),
            Err(error) => Err(NotDone::Here(in_full(&error))),
        }
    }

    /// A pod that is silent and not known to be dead is asked: after an outage of the store it may well be there.
    fn whose<'a>(
        &self,
        revocation: &Revocation,
        liveness: Option<&'a PodLiveness>,
    ) -> Result<Whose<'a>, NotDone> {
        Ok(match (&revocation.pod, liveness) {
            (None, _) => Whose::NoPod,
            (Some(_), None) => Whose::Own,
            (Some(pod), Some(liveness)) if liveness.is_dead(pod) => Whose::Dead,
            (Some(pod), Some(liveness)) => match liveness.endpoint(pod) {
                Some(endpoint) => Whose::Living(endpoint),
                None => {
                    let problem = format!("whether pod {pod} lives is not known yet");
                    return Err(NotDone::NotAsked(problem));
                }
            },
        })
    }

    /// Ends what still runs in this pod under a lease that it lost without noticing. Nobody else could reach it. While
    /// another pod cleans up behind that lease, this waits, so that no two handlers run for it at a time. What does not
    /// succeed is tried again for as long as this process lives, which nobody else knows to do.
    pub(crate) async fn clean_up_lost(&self, revocation: Revocation) {
        let due = Due {
            token: revocation.token.clone(),
            lease_type: revocation.lease_type.clone(),
            tenant: revocation.tenancy.tenant().to_owned(),
        };
        let mut tried = false;
        let mut pause = Duration::from_secs(1);
        loop {
            match self.cleanups.is_open(&due.token).await {
                Ok(true) => {
                    if !tried {
                        self.hasten(&due).await;
                    }
                    match self.clean_up(&due).await {
                        Ended::Done => return,
                        Ended::Failed => tried = true,
                        Ended::NotTried => {}
                    }
                    pause = (pause * 2).min(Cleanups::CLAIM);
                }
                // Another pod has cleaned up what lives outside this one, and it may be in others' hands by now.
                Ok(false) if !revocation.pod_bound => return,
                Ok(false) => {
                    let until = BootInstant::now() + Cleanups::CLAIM;
                    let Err(problem) = self.runner.run(revocation.clone(), until).await else {
                        return;
                    };
                    tracing::error!(lease.token = %due.token, problem, "what ran under a lost lease may still run");
                    pause = (pause * 2).min(LOST);
                }
                Err(error) => {
                    tracing::warn!(error = in_full(&error), lease.token = %due.token, "could not ask about a lost lease");
                    pause = (pause * 2).min(LOST);
                }
            }
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        }
    }

    /// What others tried in vain while this pod could not be reached need not wait for their next try any longer.
    async fn hasten(&self, due: &Due) {
        if let Err(error) = self.cleanups.hasten(&due.token).await {
            tracing::warn!(error = in_full(&error), lease.token = %due.token, "could not hasten a clean-up");
        }
    }
}

/// What this process did of a clean-up.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Done,
    Failed,
    /// It was not due, or another has it.
    NotTried,
}
