//! What operators ask, by the command line.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use lease_shared::{Decision, Revoked};

use super::Served;
use super::problem::{Body, Refusal};
use crate::api::{
    JobProgress, JobStarted, Problem, RevokeCall, RevokePodCall, RevokeReply, check_reason,
};
use crate::cluster::PodLiveness;

/// Revokes one lease.
pub(crate) async fn revoke(
    served: Served,
    Body(call): Body<RevokeCall>,
) -> Result<Json<RevokeReply>, Refusal> {
    let decision = Decision {
        pod: call.if_pod,
        note: checked(call.reason)?,
        ..Decision::default()
    };
    let outcome = served.leases.revoke(&call.token, &decision).await?;
    if outcome == Revoked::NotHeld {
        let message = format!(
            "no lease {}: it is not held any more; released, or revoked and cleaned up, or never was",
            call.token
        );
        return Err(Refusal::not_found(Problem::UNKNOWN_TOKEN, message));
    }
    Ok(Json(RevokeReply { outcome }))
}

/// Begins to revoke everything that a pod holds, and answers with the job at once.
pub(crate) async fn revoke_pod(
    served: Served,
    Body(call): Body<RevokePodCall>,
) -> Result<(StatusCode, Json<JobStarted>), Refusal> {
    let note = checked(call.reason)?;
    let holds_nothing = served.leases.held_by(&call.pod, 1).await?.is_empty();
    let pods = PodLiveness::read(&served.database, None)
        .await
        .map_err(|error| Refusal::unavailable(&error))?;
    if holds_nothing && !pods.pods().iter().any(|pod| pod.pod == call.pod) {
        let message = format!("no pod {}, and nothing is held under that id", call.pod);
        return Err(Refusal::not_found(Problem::UNKNOWN_POD, message));
    }
    let decision = Decision {
        pod: Some(call.pod),
        note,
        ..Decision::default()
    };
    let job = served.jobs.revoke_pod(served.leases.clone(), decision);
    Ok((StatusCode::ACCEPTED, Json(JobStarted { job })))
}

/// Begins one round over everything, and answers with the job at once.
pub(crate) async fn sweep(served: Served) -> (StatusCode, Json<JobStarted>) {
    let job = served.jobs.sweep(served.sweeper.clone());
    (StatusCode::ACCEPTED, Json(JobStarted { job }))
}

/// How far a job of this pod is.
pub(crate) async fn job(
    served: Served,
    Path(job): Path<String>,
) -> Result<Json<JobProgress>, Refusal> {
    match served.jobs.progress(&job) {
        Some(progress) => Ok(Json(progress)),
        None => Err(Refusal::not_found(
            Problem::UNKNOWN_JOB,
            "this pod knows no such job: it ended long ago, or the pod was started again since",
        )),
    }
}

fn checked(reason: Option<String>) -> Result<Option<String>, Refusal> {
    if let Some(Err(rule)) = reason.as_deref().map(check_reason) {
        let message = format!("the reason {rule}");
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            Problem::BAD_REQUEST,
            message,
        ));
    }
    Ok(reason)
}
