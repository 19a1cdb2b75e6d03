//! The handler `tex`: what a revocation does to a compilation.

use futures_util::future::BoxFuture;
use lease_shared::{HandlerError, LeaseHandler, Revocation, SlotReturn};
use lease_toolpack::SessionEnd;

use crate::guard::{Ended, Tracker};

/// Ends the compilation of a revoked lease, if it runs in this process: one of another that died has ended with it. A job
/// at a remote service cannot be cancelled; it runs on until it ends by itself, and nobody fetches its result.
#[derive(Debug)]
pub(crate) struct TexHandler {
    pub(crate) tracker: Tracker,
}

impl LeaseHandler for TexHandler {
    fn slot_return(&self) -> SlotReturn {
        SlotReturn::AfterCleanup
    }

    fn on_revoked<'a>(
        &'a self,
        revocation: &'a Revocation,
    ) -> BoxFuture<'a, Result<(), HandlerError>> {
        Box::pin(async move {
            if let Some(Ended::Closed(SessionEnd::Unknown(problem))) =
                self.tracker.end(revocation).await
            {
                tracing::warn!(lease.token = %revocation.token, problem, "a revoked compilation may run on");
            }
            Ok(())
        })
    }
}
