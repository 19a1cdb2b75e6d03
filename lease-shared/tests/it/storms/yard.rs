//! Leases that are revoked, forced and given up, those who clean up behind them, and what each of them did when.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lease_shared::{
    Cleanup, Cleanups, Decision, LeaseRef, LeaseRequest, LeaseService, LeaseToken, Tenancy,
};
use mongodb::bson::doc;
use test_mongo::eventually;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::floor::WITHIN;
use crate::cleanup::{cleaner, types};
use crate::support::{World, lease_type, pod_id};

/// How many are left to be cleaned up at most.
const OPEN: usize = 12;

pub(super) struct Yard {
    log: Mutex<Log>,
    room: Semaphore,
    closed: AtomicBool,
}

#[derive(Default)]
struct Log {
    /// All that were revoked.
    fed: HashSet<LeaseToken>,
    /// Who could believe to be the only one at work, and when.
    works: HashMap<LeaseToken, Vec<(Instant, Instant)>>,
    /// How often an end was certain.
    ended: HashMap<LeaseToken, usize>,
    /// Whose end was tried, with whatever outcome.
    tried: HashSet<LeaseToken>,
    given_up: HashSet<LeaseToken>,
}

impl Default for Yard {
    fn default() -> Self {
        Self {
            log: Mutex::default(),
            room: Semaphore::new(OPEN),
            closed: AtomicBool::new(false),
        }
    }
}

impl Yard {
    fn log<T>(&self, write: impl FnOnce(&mut Log) -> T) -> T {
        write(&mut self.log.lock().unwrap())
    }

    fn is_open(&self) -> bool {
        !self.closed.load(Ordering::SeqCst)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.room.close();
    }

    /// Brings new work, and now and then takes it away again.
    pub(super) fn feeder(self: &Arc<Self>, leases: LeaseService) -> JoinHandle<()> {
        let yard = Arc::clone(self);
        tokio::spawn(async move {
            while let Ok(room) = yard.room.acquire().await {
                room.forget();
                let request = LeaseRequest::builder()
                    .lease_type(lease_type("hard"))
                    .lease(LeaseRef::named("bench").unwrap())
                    .tenancy(Tenancy::new("acme", "thesis", "ada").unwrap())
                    .pod(pod_id("pod-a"))
                    .build();
                let Ok(lease) = leases.acquire(request).await else {
                    yard.room.add_permits(1);
                    continue;
                };
                let token = lease.into_token().unwrap();
                yard.log(|log| log.fed.insert(token.clone()));
                let decision = Decision::default();
                // Until it is known, or it would stay held for longer than this test.
                while leases.revoke(&token, &decision).await.is_err() {}
                if fastrand::u8(..4) == 0 {
                    while leases.force_revoke(&token, &decision).await.is_err() {}
                }
                if fastrand::u8(..6) == 0 {
                    yard.log(|log| {
                        log.given_up.insert(token.clone());
                        log.tried.insert(token.clone());
                    });
                    let abandoned = leases.cleanups().abandon(&token).await;
                    yard.note_end(&token, abandoned.unwrap_or(false));
                }
            }
        })
    }

    pub(super) fn cleaner(self: &Arc<Self>, leases: LeaseService) -> JoinHandle<()> {
        let yard = Arc::clone(self);
        tokio::spawn(async move {
            let cleanups = leases.cleanups();
            while yard.is_open() {
                let due = cleanups.due(&types(), 4).await.unwrap_or_default();
                let Some(due) = fastrand::choice(&due) else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let asked = Instant::now();
                if let Ok(Some(cleanup)) = cleanups.claim(&due.token, &cleaner()).await {
                    yard.clean_up(cleanup, asked).await;
                }
            }
        })
    }

    async fn clean_up(&self, mut cleanup: Cleanup, mut asked: Instant) {
        let token = cleanup.revocation.token.clone();
        let from = Instant::now();
        // Nothing is known of a claim whose renewal is not answered, but that it lasts as long as it did.
        if fastrand::bool() {
            let again = Instant::now();
            match cleanup.renew().await {
                Ok(true) => asked = again,
                Ok(false) => {
                    let given_up = self.log(|log| log.given_up.contains(&token));
                    assert!(given_up, "a claim that had not run out was another's");
                }
                Err(_) => {}
            }
        }
        let until = Instant::now().min(asked + Cleanups::CLAIM);
        self.log(|log| {
            let works = log.works.entry(token.clone()).or_default();
            works.push((from, until));
        });
        if fastrand::u8(..4) == 0 {
            let _ = cleanup.failed("the storm", false).await;
            return;
        }
        self.log(|log| log.tried.insert(token.clone()));
        match cleanup.finish().await {
            Ok(true) => self.note_end(&token, true),
            Ok(false) => {
                let given_up = self.log(|log| log.given_up.contains(&token));
                assert!(given_up, "a claim that had not run out was another's");
            }
            Err(_) => self.note_end(&token, false),
        }
    }

    fn note_end(&self, token: &LeaseToken, certain: bool) {
        if certain {
            self.log(|log| *log.ended.entry(token.clone()).or_default() += 1);
        }
        self.room.add_permits(1);
    }

    fn ended(&self) -> usize {
        self.log(|log| log.ended.len())
    }

    /// Returns when that many more have been ended.
    pub(super) async fn finish(&self, more: usize) {
        let enough = self.ended() + more;
        let ended = eventually("cleaned up", WITHIN, async || Ok(self.ended() >= enough));
        ended.await.unwrap();
    }

    /// Nobody worked beside another, nothing ended twice, and nothing is gone that nobody ended. What is left can still
    /// be cleaned up.
    pub(super) async fn assert_each_is_ended_once(&self, world: &World) {
        let log = std::mem::take(&mut *self.log.lock().unwrap());
        for (token, mut works) in log.works {
            works.sort();
            for pair in works.windows(2) {
                assert!(pair[0].1 <= pair[1].0, "two worked on {token} at once");
            }
        }
        for (token, times) in &log.ended {
            // Who gave it up is told that it is gone also if another ended it between two sendings.
            let once = *times == 1 || log.given_up.contains(token);
            assert!(once, "{token} was ended {times} times");
        }
        let mut left = HashSet::new();
        for holder in world.all_holders().await {
            let token: LeaseToken = holder.get_str("_id").unwrap().parse().unwrap();
            if holder.get_str("state").unwrap() == "REVOKING" {
                world.age_cleanup(&token, Duration::from_secs(7200)).await;
                left.insert(token);
            }
        }
        for token in &log.fed {
            let there = left.contains(token);
            assert!(there || log.tried.contains(token), "{token} is gone");
            assert!(!(there && log.ended.contains_key(token)), "{token} is back");
        }
        world.commit().await;
        let cleanups = world.leases.cleanups();
        for due in cleanups.due(&types(), 1000).await.unwrap() {
            let cleanup = cleanups.claim(&due.token, &cleaner()).await.unwrap();
            assert!(cleanup.unwrap().finish().await.unwrap());
            left.remove(&due.token);
        }
        assert!(left.is_empty(), "cannot be cleaned up: {left:?}");
        let none = world
            .holders()
            .count_documents(doc! { "type": "hard" })
            .await;
        assert_eq!(none.unwrap(), 0);
    }
}

impl fmt::Display for Yard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fed, ended) = self.log(|log| (log.fed.len(), log.ended.len()));
        let tried = self.log(|log| log.works.values().map(Vec::len).sum::<usize>());
        write!(f, "clean-ups: {fed} to do, {tried} begun, {ended} ended")
    }
}
