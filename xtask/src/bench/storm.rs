//! A storm of releases: how long until each slot is free, by the metric that operators see.

use std::time::Duration;

use anyhow::{Result, anyhow};
use lease_shared::{LeaseService, metrics::RELEASE_TO_FREE};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde::Serialize;

use super::request;

const LEASES: usize = 200;

#[derive(Serialize)]
pub(crate) struct Storm {
    /// Released at the same time.
    pub(crate) leases: usize,
    /// From a release to the return of its slots.
    pub(crate) to_free_p50_ms: f64,
    pub(crate) to_free_p95_ms: f64,
}

/// To be measured last: from then on this process records its metrics.
pub(crate) async fn measure(leases: &LeaseService) -> Result<Storm> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().map_err(|error| anyhow!("{error}"))?;
    let mut held = Vec::new();
    for _ in 0..LEASES {
        held.push(leases.acquire(request("four", Duration::ZERO)?).await?);
    }
    let releases = held.iter().map(|lease| lease.release());
    futures_util::future::try_join_all(releases).await?;
    leases.close().await;
    let mut seconds: Vec<f64> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter(|(key, ..)| key.key().name() == RELEASE_TO_FREE)
        .flat_map(|(.., value)| match value {
            DebugValue::Histogram(seconds) => seconds,
            DebugValue::Counter(_) | DebugValue::Gauge(_) => Vec::new(),
        })
        .map(f64::from)
        .collect();
    seconds.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        let time =
            seconds.get((seconds.len() * percent / 100).min(seconds.len().saturating_sub(1)));
        (time.copied().unwrap_or(f64::NAN) * 1e6).round() / 1e3
    };
    Ok(Storm {
        leases: seconds.len(),
        to_free_p50_ms: at(50),
        to_free_p95_ms: at(95),
    })
}
