//! Orders that many tasks of one actor carry out together.

use std::sync::Arc;

use lease_shared::{Busy, OnBusy, Release};
use tokio::sync::{Barrier, Notify, Semaphore};

use crate::protocol::{Answer, Want};
use crate::stage::{Stage, failed, parse, request};

/// How many of `CheckAll` and `ReleaseAll` are under way together.
const TOGETHER: usize = 16;

/// What to do with each of many leases.
#[derive(Clone, Copy)]
pub(crate) enum Each {
    Check,
    Release,
}

impl Stage {
    /// Tasks that meet at a barrier; each is its own user, so that the wider levels decide as well.
    pub(crate) async fn burst(self: &Arc<Self>, want: Want, times: usize) -> Answer {
        let barrier = Arc::new(Barrier::new(times));
        let racers: Vec<_> = (0..times)
            .map(|n| {
                let (stage, barrier, mut want) =
                    (Arc::clone(self), Arc::clone(&barrier), want.clone());
                want.tenancy[2] = format!("{}{n}", want.tenancy[2]);
                tokio::spawn(async move {
                    barrier.wait().await;
                    stage.acquire(&want).await
                })
            })
            .collect();
        let (mut granted, mut unavailable) = (0, 0);
        for racer in racers {
            match racer.await.expect("a racer") {
                Answer::Held(_) => granted += 1,
                Answer::Busy => {}
                _ => unavailable += 1,
            }
        }
        Answer::Granted {
            granted,
            unavailable,
        }
    }

    pub(crate) async fn queue(self: &Arc<Self>, want: &Want, times: usize) -> Answer {
        for n in 0..times {
            let waits = Arc::new(Notify::new());
            let (stage, told, in_line) = (Arc::clone(self), Arc::clone(&waits), Arc::clone(&waits));
            let on_busy: OnBusy = Arc::new(move |_: &Busy| told.notify_one());
            let request = request(want, Some(on_busy));
            tokio::spawn(async move {
                let mut acquire = std::pin::pin!(stage.leases.acquire(request));
                // The first is told that it waits. Who comes later is in line after its first poll.
                if futures_util::poll!(acquire.as_mut()).is_pending() {
                    if n > 0 {
                        in_line.notify_one();
                    }
                    let _ = acquire.await.map(|lease| stage.keep(lease));
                }
            });
            waits.notified().await;
        }
        Answer::Done
    }

    /// The same for many leases, a few at a time. Was each still held?
    pub(crate) async fn each(self: &Arc<Self>, tokens: Vec<String>, what: Each) -> Answer {
        let places = Arc::new(Semaphore::new(TOGETHER));
        let mut tasks = Vec::new();
        for token in tokens {
            let place = Arc::clone(&places).acquire_owned().await;
            let stage = Arc::clone(self);
            tasks.push(tokio::spawn(async move {
                let _place = place;
                match what {
                    Each::Check => stage.check(&token).await,
                    Each::Release => {
                        let token = parse(&token);
                        let released = stage.leases.release_token(&token).await;
                        released
                            .map(|release| release == Release::Released)
                            .map_err(failed)
                    }
                }
            }));
        }
        let mut held = Vec::new();
        for task in tasks {
            match task.await.expect("a task") {
                Ok(still) => held.push(still),
                Err(failed) => return failed,
            }
        }
        Answer::Each(held)
    }
}
