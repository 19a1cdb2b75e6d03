//! Contenders for a few slots, and when each of them could believe that it held one.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lease_shared::{AcquireError, CheckError, Lease, LeaseService, Release};
use test_mongo::eventually;
use tokio::task::JoinHandle;

use crate::stage::USE_LIMIT;
use crate::support::waiting;

/// One of them is kept by one who only watches.
pub(super) const CAP: usize = 3;
const WAIT: Duration = Duration::from_secs(3);
/// What an acquire may take beyond its wait, and a little for a busy machine.
const GRACE: Duration = Duration::from_secs(5 + 2);
pub(super) const TTL: Duration = Duration::from_secs(600);
pub(super) const WITHIN: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Floor {
    stays: Mutex<Vec<Stay>>,
    refused: AtomicUsize,
    unavailable: AtomicUsize,
    closed: AtomicBool,
}

/// From a first check that succeeded until its holder let go, or until its time was over since the last that did.
struct Stay {
    who: String,
    from: Instant,
    until: Instant,
}

impl Floor {
    pub(super) fn contender(self: &Arc<Self>, leases: LeaseService, who: String) -> JoinHandle<()> {
        let floor = Arc::clone(self);
        tokio::spawn(async move {
            while !floor.closed.load(Ordering::SeqCst) {
                let started = Instant::now();
                let acquired = leases.acquire(waiting("pdf", &who, WAIT)).await;
                let took = started.elapsed();
                assert!(took < WAIT + GRACE, "an acquire took {took:?}");
                match acquired {
                    Ok(lease) => floor.stay(&who, lease).await,
                    Err(AcquireError::Busy(_)) => count(&floor.refused),
                    Err(AcquireError::Unavailable(_)) => count(&floor.unavailable),
                    Err(other) => panic!("{other:?}"),
                }
            }
        })
    }

    async fn stay(&self, who: &str, lease: Lease) {
        let mut believed: Option<(Instant, Instant)> = None;
        for _ in 0..3 {
            let sent = Instant::now();
            match lease.check().await {
                Ok(()) => {
                    let from = believed.map_or_else(Instant::now, |(from, _)| from);
                    believed = Some((from, sent + TTL));
                }
                Err(CheckError::Unavailable(_)) => {}
                Err(lost) => panic!("{who}: {lost}"),
            }
            assert!(sent.elapsed() < USE_LIMIT + Duration::from_secs(1));
        }
        let left = Instant::now();
        if let Some((from, until)) = believed {
            let (who, until) = (who.to_owned(), until.min(left));
            self.stays.lock().unwrap().push(Stay { who, from, until });
        }
        let mut unsure = false;
        loop {
            let sent = Instant::now();
            let released = lease.release().await;
            assert!(sent.elapsed() < USE_LIMIT + Duration::from_secs(1));
            match released {
                Ok(Release::Released) => return,
                Ok(Release::AlreadyReleased) if unsure => return,
                Ok(other) => panic!("{who}: {other:?}"),
                Err(_) => unsure = true,
            }
        }
    }

    pub(super) fn served(&self) -> usize {
        self.stays.lock().unwrap().len()
    }

    /// Returns when that many more have had a slot.
    pub(super) async fn serve(&self, more: usize) {
        let enough = self.served() + more;
        let served = eventually("served", WITHIN, async || Ok(self.served() >= enough));
        served.await.unwrap();
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Judged by what each knew of its own lease, at every moment of the storm.
    pub(super) fn assert_never_beyond_caps(&self) {
        let stays = self.stays.lock().unwrap();
        let mut moments: Vec<(Instant, bool, &str)> = Vec::new();
        for stay in stays.iter() {
            moments.push((stay.from, true, &stay.who));
            moments.push((stay.until, false, &stay.who));
        }
        moments.sort();
        let mut inside: HashMap<&str, usize> = HashMap::new();
        for (_, enters, who) in moments {
            let own = inside.entry(who).or_default();
            match enters {
                true => *own += 1,
                false => *own -= 1,
            }
            assert!(*own <= 1, "two of {who}");
            let all: usize = inside.values().sum();
            assert!(all < CAP, "{all} beside the one that is kept");
        }
    }
}

fn count(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = self.refused.load(Ordering::SeqCst);
        let unavailable = self.unavailable.load(Ordering::SeqCst);
        let served = self.served();
        write!(
            f,
            "acquires: {served} served, {refused} busy, {unavailable} unavailable"
        )
    }
}
