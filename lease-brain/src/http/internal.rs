//! What other pods ask.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use supervise::BootInstant;

use super::Served;
use super::problem::{Body, Refusal};
use crate::api::{POD, Problem, RevokedCall};
use crate::dispatch::AFTERWARDS;

/// Runs this pod's handler for a lease that was revoked, under the caller's claim, and answers when it has ended.
///
/// The claim is looked up in the store: a call that lay unread while this process stood still must not run a handler
/// beside that of whoever has the claim by now. Nor must one run on when the caller has given this pod up.
pub(crate) async fn revoked(
    served: Served,
    Body(call): Body<RevokedCall>,
) -> Result<impl IntoResponse, Refusal> {
    if call.pod != *served.registry.pod() {
        let message = format!(
            "pod {} is not here: this is pod {}",
            call.pod,
            served.registry.pod()
        );
        return Err(Refusal::not_found(Problem::UNKNOWN_POD, message));
    }
    let cleanups = served.leases.cleanups();
    // Before the store is asked: should this process stand still now, what is left goes by meanwhile.
    let asked = BootInstant::now();
    let claimed = cleanups.under_claim(&call.token, &call.claim).await?;
    let Some((revocation, left)) = claimed.filter(|(_, left)| *left > AFTERWARDS) else {
        let message = format!("lease {} is not being revoked under that claim", call.token);
        return Err(Refusal::not_found(Problem::UNKNOWN_TOKEN, message));
    };
    let until = asked + (left - AFTERWARDS);
    let ran = served
        .runner
        .run_for_another(&call.claim, revocation, until)
        .await;
    let by = [(POD, call.pod.to_string())];
    ran.map(|()| (StatusCode::NO_CONTENT, by))
        .map_err(|problem| {
            Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                Problem::HANDLER_FAILED,
                problem,
            )
        })
}
