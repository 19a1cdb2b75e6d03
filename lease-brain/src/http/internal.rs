//! What other pods ask.

use axum::http::StatusCode;

use super::Served;
use super::problem::{Body, Refusal};
use crate::api::{Problem, RevokedCall};

/// Runs this pod's handler for a lease that was revoked, under the caller's claim, and answers when it has ended.
///
/// The claim is looked up in the store: a call that lay unread while this process stood still must not run a handler
/// beside that of whoever has the claim by now.
pub(crate) async fn revoked(
    served: Served,
    Body(call): Body<RevokedCall>,
) -> Result<StatusCode, Refusal> {
    if call.pod != *served.registry.pod() {
        let message = format!(
            "pod {} is not here: this is pod {}",
            call.pod,
            served.registry.pod()
        );
        return Err(Refusal::not_found(Problem::UNKNOWN_POD, message));
    }
    let cleanups = served.leases.cleanups();
    let Some((revocation, left)) = cleanups.under_claim(&call.token, &call.claim).await? else {
        let message = format!("lease {} is not being revoked under that claim", call.token);
        return Err(Refusal::not_found(Problem::UNKNOWN_TOKEN, message));
    };
    let ran = served.runner.run(revocation, left).await;
    ran.map(|()| StatusCode::NO_CONTENT).map_err(|problem| {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Problem::HANDLER_FAILED,
            problem,
        )
    })
}
