//! Latencies, side by side: each round does each operation once, so that whatever disturbs the machine disturbs all.

use std::time::{Duration, Instant};

use anyhow::Result;
use lease_shared::LeaseService;
use mongodb::bson::{Document, doc};
use serde::Serialize;

use super::{Bench, request};

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

#[derive(Serialize)]
pub(crate) struct Latencies {
    /// A raw `updateOne` by `_id`, majority and journal.
    pub(crate) update: Latency,
    pub(crate) acquire_release1: Latency,
    pub(crate) acquire_release4: Latency,
    pub(crate) acquire_release4_awaited: Latency,
    pub(crate) check: Latency,
}

impl Latencies {
    pub(crate) fn named(&self) -> [(&'static str, Latency); 5] {
        [
            ("raw update, majority and journal", self.update),
            ("acquire + release, 1 level", self.acquire_release1),
            ("acquire + release, 4 levels", self.acquire_release4),
            (
                "acquire + release, 4 levels, unbooking awaited",
                self.acquire_release4_awaited,
            ),
            ("check", self.check),
        ]
    }
}

pub(crate) async fn measure(
    bench: &Bench,
    leases: &LeaseService,
    rounds: u32,
) -> Result<Latencies> {
    let raw = bench
        .client(None)
        .await?
        .database(&bench.database)
        .collection::<Document>("raw");
    raw.insert_one(doc! { "_id": 1, "n": 0 }).await?;
    let checked = leases.acquire(request("four", Duration::ZERO)?).await?;
    let mut times: [Vec<Duration>; 5] = Default::default();
    for round in 0..rounds + 10 {
        let mut record = |which: usize, since: Instant| {
            // The first rounds open connections and warm caches.
            if round >= 10 {
                times[which].push(since.elapsed());
            }
        };
        let since = Instant::now();
        raw.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } })
            .await?;
        record(0, since);
        for (which, name) in [(1, "one"), (2, "four")] {
            let since = Instant::now();
            leases
                .acquire(request(name, Duration::ZERO)?)
                .await?
                .release()
                .await?;
            record(which, since);
            // What was not awaited is not to burden the next measurement.
            leases.close().await;
        }
        let since = Instant::now();
        leases
            .acquire(request("four", Duration::ZERO)?)
            .await?
            .release()
            .await?;
        leases.close().await;
        record(3, since);
        let since = Instant::now();
        checked.check().await?;
        record(4, since);
    }
    checked.release().await?;
    leases.close().await;
    let [update, one, four, awaited, check] = times.map(percentiles);
    Ok(Latencies {
        update,
        acquire_release1: one,
        acquire_release4: four,
        acquire_release4_awaited: awaited,
        check,
    })
}

fn percentiles(mut times: Vec<Duration>) -> Latency {
    times.sort();
    let at = |percent: usize| {
        let time = times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
        (time.copied().unwrap_or_default().as_secs_f64() * 1e6).round() / 1e3
    };
    Latency {
        p50_ms: at(50),
        p99_ms: at(99),
    }
}
