//! What can befall a replica set, and what must be said while nothing is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lease_shared::{CheckError, Lease, LeaseService};
use test_mongo::ReplicaSet;
use tokio::task::JoinHandle;

use super::floor::Floor;
use crate::stage::USE_LIMIT;
use crate::support::{request, waiting};

#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    PrimaryKilled,
    /// It stands still while another is elected, and comes back thinking that it still is.
    PrimaryStopped,
    StepDowns,
    /// The primary is cut off from the others, and its clients are not.
    NoMajority,
    AllKilled,
}

const STORM: Duration = Duration::from_secs(8);
/// The time to live of `brief`, and how long its end may be put off by changes of roles.
const BRIEF: Duration = Duration::from_secs(4);
const PUT_OFF: Duration = Duration::from_secs(15);

impl Trouble {
    pub(super) async fn pass(
        self,
        set: &mut ReplicaSet,
        leases: &LeaseService,
        kept: &Lease,
        floor: &Floor,
    ) {
        match self {
            Self::PrimaryKilled => {
                let old = set.primary().await.unwrap();
                set.kill(old).unwrap();
                floor.serve(4).await;
                set.restart(old).await.unwrap();
            }
            Self::PrimaryStopped => {
                let old = set.primary().await.unwrap();
                set.pause(old).unwrap();
                set.primary_other_than(old).await.unwrap();
                floor.serve(4).await;
                set.resume(old).unwrap();
            }
            Self::StepDowns => step_downs(set, leases, floor).await,
            Self::NoMajority => {
                let doomed = leases
                    .acquire(waiting("brief", "ada", STORM))
                    .await
                    .unwrap();
                let secondaries = set.secondaries().await;
                assert_eq!(secondaries.len(), 2);
                for node in &secondaries {
                    set.pause(*node).unwrap();
                }
                let (checked, released) =
                    tokio::join!(answered(kept.check()), answered(doomed.release()));
                for node in secondaries {
                    set.resume(node).unwrap();
                }
                assert_unavailable(&checked);
                released.expect_err("no majority knows of it");
            }
            Self::AllKilled => {
                for node in 0..3 {
                    set.kill(node).unwrap();
                }
                assert_unavailable(&answered(kept.check()).await);
                for node in 0..3 {
                    set.restart(node).await.unwrap();
                }
            }
        }
    }
}

/// A change of roles each second. A lease that nobody uses ends all the same, not before its time and not long after.
async fn step_downs(set: &ReplicaSet, leases: &LeaseService, floor: &Floor) {
    let begun = Instant::now();
    let unused = leases.acquire(request("brief", "ada")).await.unwrap();
    let last_used = Instant::now();
    let waiter = leases.clone();
    let waiter = tokio::spawn(async move {
        let next = waiter
            .acquire(waiting("brief", "bob", Duration::from_secs(60)))
            .await;
        (next.unwrap(), Instant::now())
    });
    let mut changes = 0;
    while changes < 3 || begun.elapsed() < STORM {
        // Between two elections there is nobody to step down.
        if let Ok(Ok(_)) = tokio::time::timeout(STORM, set.step_down_briefly()).await {
            changes += 1;
        }
        let pause = tokio::time::timeout(Duration::from_secs(1), floor.serve(3));
        let _ = pause.await;
    }
    eprintln!("  {changes} changes of roles");
    let (next, granted) = waiter.await.unwrap();
    assert!(granted - begun >= BRIEF, "not before its time");
    let late = (granted - last_used).saturating_sub(BRIEF);
    assert!(late < PUT_OFF, "{late:?} after its time");
    let lost = unused.check().await;
    assert!(matches!(lost, Err(CheckError::Lost(_))), "{lost:?}");
    next.release().await.unwrap();
}

async fn answered<T>(answer: impl Future<Output = T>) -> T {
    let within = USE_LIMIT + Duration::from_secs(1);
    let answer = tokio::time::timeout(within, answer).await;
    answer.expect("an answer in time")
}

#[track_caller]
fn assert_unavailable(checked: &Result<(), CheckError>) {
    assert!(
        matches!(checked, Err(CheckError::Unavailable(_))),
        "{checked:?}"
    );
}

/// Checks one lease again and again: it may be that nobody can be asked; that it is lost must not be said.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    checks: JoinHandle<(usize, usize)>,
}

impl Watch {
    pub(super) fn over(lease: Arc<Lease>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let checks = tokio::spawn(async move {
            let (mut ok, mut unavailable) = (0, 0);
            while !stopped.load(Ordering::SeqCst) {
                match answered(lease.check()).await {
                    Ok(()) => ok += 1,
                    Err(CheckError::Unavailable(_)) => unavailable += 1,
                    Err(lost) => panic!("{lost}"),
                }
            }
            (ok, unavailable)
        });
        Self { stop, checks }
    }

    /// How many said that it is held, and how many that nothing is known.
    pub(super) async fn end(self) -> (usize, usize) {
        self.stop.store(true, Ordering::SeqCst);
        self.checks.await.unwrap()
    }
}
