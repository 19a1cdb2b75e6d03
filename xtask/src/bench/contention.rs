//! 64 contenders on 6 slots, with the line of one process and without it, in turns.

use std::time::Duration;

use anyhow::Result;
use lease_shared::LeaseService;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Bench, request};

const CONTENDERS: usize = 64;

#[derive(Serialize)]
pub(crate) struct Contention {
    pub(crate) line_pairs_per_second: f64,
    pub(crate) free_pairs_per_second: f64,
}

pub(crate) async fn measure(bench: &Bench, rounds: u32) -> Result<Contention> {
    let turn = Duration::from_millis(u64::from(rounds) * 10)
        .clamp(Duration::from_secs(1), Duration::from_secs(6));
    let shared = bench.service(None).await?;
    let line = vec![shared; CONTENDERS];
    // A line belongs to a service, so contenders with a service each poll freely.
    let mut free = Vec::new();
    for _ in 0..CONTENDERS {
        free.push(bench.service(None).await?);
    }
    let mut pairs = [0_usize; 2];
    let mut times = [Duration::ZERO; 2];
    for _ in 0..2 {
        for (which, services) in [&line, &free].into_iter().enumerate() {
            let since = Instant::now();
            pairs[which] += contend(services, since + turn).await?;
            times[which] += since.elapsed();
        }
    }
    let per_second =
        |which: usize| (pairs[which] as f64 / times[which].as_secs_f64() * 10.0).round() / 10.0;
    Ok(Contention {
        line_pairs_per_second: per_second(0),
        free_pairs_per_second: per_second(1),
    })
}

async fn contend(services: &[LeaseService], until: Instant) -> Result<usize> {
    let mut contenders = JoinSet::new();
    for leases in services {
        let leases = leases.clone();
        contenders.spawn(async move {
            let mut pairs = 0;
            while Instant::now() < until {
                let lease = leases
                    .acquire(request("six", Duration::from_secs(60))?)
                    .await?;
                lease.release().await?;
                pairs += 1;
            }
            anyhow::Ok(pairs)
        });
    }
    let mut pairs = 0;
    while let Some(contender) = contenders.join_next().await {
        pairs += contender??;
    }
    for leases in services {
        leases.close().await;
    }
    Ok(pairs)
}
