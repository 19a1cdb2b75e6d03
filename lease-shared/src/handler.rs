//! What cleans up behind a revoked lease.

use std::error::Error;
use std::fmt;

use futures_util::future::BoxFuture;

use crate::revocation::{Revocation, SlotReturn};

/// Why a clean-up did not succeed. The text is stored and shown to operators, so it must hold no secret.
pub type HandlerError = Box<dyn Error + Send + Sync>;

/// Cleans up the resources of one lease type after a revocation: closes the session, powers the bench off.
///
/// Only a revocation leads here, never a regular release. A handler runs at least once for each revocation of its type:
/// again after a failure, and again in another process if this one dies over it. So it must be *idempotent*, and what it
/// finds already gone is done. It has 30 seconds; after that its future is dropped, which counts as a failure, as does a
/// panic. It is never run twice at the same time for one lease.
///
/// ```
/// use futures_util::future::BoxFuture;
/// use lease_shared::{HandlerError, LeaseHandler, Revocation, SlotReturn};
///
/// #[derive(Debug)]
/// struct Bench;
///
/// impl LeaseHandler for Bench {
///     fn slot_return(&self) -> SlotReturn {
///         SlotReturn::AfterCleanup
///     }
///
///     fn on_revoked<'a>(&'a self, revocation: &'a Revocation) -> BoxFuture<'a, Result<(), HandlerError>> {
///         Box::pin(async move {
///             let plug = revocation.payload.get_str("plug")?;
///             println!("switching plug {plug} off");
///             Ok(())
///         })
///     }
/// }
/// ```
pub trait LeaseHandler: fmt::Debug + Send + Sync + 'static {
    /// When the slot of a revoked lease can be booked by another: at once, or, for an exclusive resource, when this
    /// handler is done.
    fn slot_return(&self) -> SlotReturn;

    /// Ends what ran under the lease.
    ///
    /// # Errors
    /// The resource may still be in use. The clean-up is tried again.
    ///
    /// # Cancellation
    /// Dropped when its time is over or its process ends; it is then run again.
    fn on_revoked<'a>(
        &'a self,
        revocation: &'a Revocation,
    ) -> BoxFuture<'a, Result<(), HandlerError>>;
}
