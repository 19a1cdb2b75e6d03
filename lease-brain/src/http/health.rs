//! Is this process alive, is it of use, and what does it count?

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::Served;
use super::problem::Refusal;
use crate::api::Problem;
use crate::cluster::{PodLiveness, PodStatus, PodView};
use crate::metrics;

/// The process runs.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// The store answers, and leases may be acquired here.
pub(crate) async fn readyz(served: Served) -> Result<&'static str, Refusal> {
    if served.stopping.is_cancelled() {
        return Err(Refusal::draining());
    }
    let looked = served.registry.liveness_of(served.registry.pod()).await;
    looked.map_err(|error| Refusal::unavailable(&error))?;
    Ok("ready\n")
}

/// Prometheus text. What the store says is counted now, so that no gauge drifts; what it does not say is not a number.
pub(crate) async fn metrics(served: Served) -> Response {
    let Some(handle) = &served.metrics else {
        let message = "this process exports no metrics";
        return Refusal::not_found(Problem::BAD_REQUEST, message).into_response();
    };
    let limit = Duration::from_secs(5);
    let views = served.leases.views();
    let counted = async {
        let totals = views.totals().await.ok();
        let pods = PodLiveness::read(&served.database, Some(served.registry.pod())).await;
        (totals, pods.ok())
    };
    let (totals, pods) = tokio::time::timeout(limit, counted)
        .await
        .unwrap_or_default();
    for (state, value) in [
        ("pending", totals.map(|totals| totals.pending)),
        ("held", totals.map(|totals| totals.held)),
        ("revoking", totals.map(|totals| totals.revoking)),
        ("failed", totals.map(|totals| totals.failed)),
    ] {
        metrics::set(metrics::HOLDERS, state, value);
    }
    metrics::set(
        metrics::REVOCATIONS,
        "waiting",
        totals.map(|totals| totals.revoking),
    );
    metrics::set(
        metrics::REVOCATIONS,
        "failed",
        totals.map(|totals| totals.failed),
    );
    let count = |is: fn(&PodView) -> bool| {
        let pods = pods.as_ref()?.pods();
        Some(pods.iter().filter(|pod| is(pod)).count() as u64)
    };
    let stopped = |pod: &PodView| !pod.alive && pod.status == PodStatus::Stopped;
    let dead = |pod: &PodView| !pod.alive && pod.status != PodStatus::Stopped;
    metrics::set(metrics::PODS, "alive", count(|pod| pod.alive));
    metrics::set(metrics::PODS, "dead", count(dead));
    metrics::set(metrics::PODS, "stopped", count(stopped));
    let age = served.sweeper.state.sweep_age();
    ::metrics::gauge!(metrics::SWEEP_AGE).set(age.as_secs_f64());
    (
        StatusCode::OK,
        [("content-type", "text/plain; version=0.0.4")],
        handle.render(),
    )
        .into_response()
}
