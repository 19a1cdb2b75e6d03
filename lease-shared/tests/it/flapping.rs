//! A network that fails again and again, at any command: no cap is passed, no lease is lost, and all get on when it heals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lease_shared::{AcquireError, CheckError, LeaseService};
use mongodb::bson::doc;
use test_mongo::{FailPoint, eventually};
use tokio::task::JoinHandle;

use crate::stage::{ACQUIRE_LIMIT, Stage, VICTIM, assert_all_comes_free, assert_within_caps};
use crate::support::waiting;

const CAP: usize = 2;
const WAIT: Duration = Duration::from_secs(10);

/// What all workers see of each other.
#[derive(Debug, Default)]
struct Seen {
    inside: AtomicUsize,
    served: AtomicUsize,
    /// Nobody begins again from this many on.
    enough: AtomicUsize,
}

impl Seen {
    fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }
}

fn worker(leases: LeaseService, who: String, seen: Arc<Seen>) -> JoinHandle<()> {
    tokio::spawn(async move {
        while seen.served() < seen.enough.load(Ordering::SeqCst) {
            let started = Instant::now();
            let acquired = leases.acquire(waiting("pdf", &who, WAIT)).await;
            let took = started.elapsed();
            assert!(took < WAIT + ACQUIRE_LIMIT, "{took:?}");
            let lease = match acquired {
                Ok(lease) => lease,
                Err(AcquireError::Busy(_) | AcquireError::Unavailable(_)) => continue,
                Err(other) => panic!("{other:?}"),
            };
            let others = seen.inside.fetch_add(1, Ordering::SeqCst);
            assert!(others < CAP, "over the cap");
            let checked = lease.check().await;
            assert!(!matches!(checked, Err(CheckError::Lost(_))), "{checked:?}");
            seen.inside.fetch_sub(1, Ordering::SeqCst);
            if lease.release().await.is_ok() {
                seen.served.fetch_add(1, Ordering::SeqCst);
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_at_random_pass_no_cap_lose_no_lease_and_stop_nobody_for_good() {
    let stage = Stage::new(CAP).await;
    let first = stage.victim().await;
    let second = stage.victim().await;
    let data = doc! {
        "failCommands": ["update", "findAndModify", "find", "aggregate"],
        "closeConnection": true,
        "appName": VICTIM,
    };
    let often = doc! { "activationProbability": 0.15 };
    let uri = stage.server.uri();
    let flapping = FailPoint::set(&uri, "failCommand", often, data)
        .await
        .unwrap();
    let seen = Arc::new(Seen::default());
    seen.enough.store(usize::MAX, Ordering::SeqCst);
    let workers: Vec<_> = (0..8)
        .map(|n| {
            let leases = if n % 2 == 0 { &first } else { &second };
            worker(leases.clone(), format!("user-{n}"), Arc::clone(&seen))
        })
        .collect();
    let until = async |count| {
        let within = Duration::from_secs(60);
        let reached = eventually("leases served", within, async || Ok(seen.served() >= count));
        reached.await.unwrap();
    };
    until(15).await;
    assert_within_caps(&stage.world).await;
    flapping.off().await.unwrap();
    let healed = seen.served();
    seen.enough.store(healed + 50, Ordering::SeqCst);
    until(healed + 50).await;
    for worker in workers {
        worker.await.unwrap();
    }
    first.close().await;
    second.close().await;
    assert_all_comes_free(&stage.world, CAP).await;
}
