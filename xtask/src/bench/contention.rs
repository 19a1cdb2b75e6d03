//! 64 contenders on 6 slots: in the line of one process; polling freely, as one does who has only a try that does not
//! wait; and with the pauses of a wait but without the line. In turns, so that a disturbance meets all.

use std::time::Duration;

use anyhow::Result;
use lease_shared::{AcquireError, LeaseService};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Bench, request};

const CONTENDERS: usize = 64;

/// How the contenders wait.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// In the line of the service that they share.
    Line,
    /// With tries that do not wait, 1 to 10 ms apart.
    Free,
    /// As in a line, but each with a service of its own, and so a line of its own.
    Apart,
}

#[derive(Serialize)]
pub(crate) struct Contention {
    pub(crate) line: Throughput,
    pub(crate) free: Throughput,
    pub(crate) apart: Throughput,
}

#[derive(Default, Serialize)]
pub(crate) struct Throughput {
    pub(crate) pairs_per_second: f64,
    /// How many pairs the contender with the fewest got; 0: somebody starved.
    pub(crate) fewest: usize,
}

pub(crate) async fn measure(bench: &Bench, rounds: u32) -> Result<Contention> {
    let turn = Duration::from_millis(u64::from(rounds) * 10);
    let turn = turn.clamp(Duration::from_secs(1), Duration::from_secs(6));
    let shared = vec![bench.service(None).await?; CONTENDERS];
    let mut own = Vec::new();
    for _ in 0..CONTENDERS {
        own.push(bench.service(None).await?);
    }
    let ways = [
        (Way::Line, &shared),
        (Way::Free, &shared),
        (Way::Apart, &own),
    ];
    let mut pairs = [const { Vec::new() }; 3];
    let mut times = [Duration::ZERO; 3];
    for _ in 0..2 {
        for (which, (way, services)) in ways.into_iter().enumerate() {
            let since = Instant::now();
            pairs[which].push(contend(way, services, since + turn).await?);
            times[which] += since.elapsed();
        }
    }
    let throughput = |which: usize| {
        let turns: &Vec<Vec<usize>> = &pairs[which];
        let all: usize = turns.iter().flatten().sum();
        Throughput {
            pairs_per_second: (all as f64 / times[which].as_secs_f64() * 10.0).round() / 10.0,
            fewest: turns.iter().flatten().copied().min().unwrap_or(0),
        }
    };
    Ok(Contention {
        line: throughput(0),
        free: throughput(1),
        apart: throughput(2),
    })
}

/// The pairs of each contender.
async fn contend(way: Way, services: &[LeaseService], until: Instant) -> Result<Vec<usize>> {
    let mut contenders = JoinSet::new();
    for leases in services {
        contenders.spawn(contender(way, leases.clone(), until));
    }
    let mut pairs = Vec::new();
    while let Some(contender) = contenders.join_next().await {
        pairs.push(contender??);
    }
    for leases in services {
        leases.close().await;
    }
    Ok(pairs)
}

async fn contender(way: Way, leases: LeaseService, until: Instant) -> Result<usize> {
    let wait = match way {
        Way::Line | Way::Apart => Duration::from_secs(60),
        Way::Free => Duration::ZERO,
    };
    let mut pairs = 0;
    while Instant::now() < until {
        match leases.acquire(request("six", wait)?).await {
            Ok(lease) => {
                lease.release().await?;
                pairs += 1;
            }
            Err(AcquireError::Busy(_)) => {
                let pause = Duration::from_micros(fastrand::u64(1_000..10_000));
                tokio::time::sleep(pause).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(pairs)
}
