//! The handler of leases whose clean-up is one HTTP call, as `lease run --on-revoke` leaves them.

mod call;
mod payload;

use std::time::Duration;

use futures_util::future::BoxFuture;
use lease_shared::{HandlerError, InvalidName, LeaseHandler, LeaseType, Revocation, SlotReturn};

pub use call::WebhookError;
pub use payload::{InvalidPayload, PayloadKey, WebhookPayload};

use crate::secrets::Secrets;

/// The lease type `webhook`.
///
/// # Errors
/// Never: it is a valid name.
pub fn lease_type() -> Result<LeaseType, InvalidName> {
    LeaseType::new("webhook")
}

/// When the slot of a revoked `webhook` lease comes back: what the address switches off may be exclusive.
pub const SLOT_RETURN: SlotReturn = SlotReturn::AfterCleanup;

/// Calls the address in the payload of a revoked lease.
///
/// An answer of 2xx is done, and so are 404 and 410, for what is not there needs no end. Everything else is a failure:
/// a redirect too, which is not followed, for it could lead the secrets elsewhere. The answer's body is not read. The
/// client tries once, without the environment's proxies; trying again is the caller's.
///
/// Besides the payload's headers, whose secrets are those of the holder's tenant and project, a call has
/// - `X-Lease-Reason`: `idle`, `pod` or `revoke`,
/// - `X-Lease-Holder`: the holder's own reference, percent-encoded, unless it is empty,
/// - `Idempotency-Key`: the same for each call for one lease, so that a receiver knows a repetition: in hexadecimal, the
///   SHA-256 of `webhook:` and the token. The token itself is not sent, for who has it can release the lease.
///
/// An empty payload says that the holder died before there was anything to end: done, without a call.
#[derive(Debug, Clone)]
pub struct Webhook {
    client: reqwest::Client,
    secrets: Secrets,
    limits: WebhookLimits,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub struct WebhookLimits {
    /// Until there is a connection. Too small: a receiver behind a slow network is never reached.
    pub connect: Duration,
    /// Until there is an answer, all in all. At 30 seconds or more, the handler's time is over first, and its error no
    /// longer says why.
    pub total: Duration,
}

impl Default for WebhookLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            total: Duration::from_secs(20),
        }
    }
}

impl Webhook {
    /// Calls with the secrets of the holder's tenant and project.
    ///
    /// # Errors
    /// The system's certificates cannot be loaded.
    pub fn new(secrets: Secrets, limits: WebhookLimits) -> Result<Self, reqwest::Error> {
        Self::with_client(call::client(limits), secrets, limits)
    }

    fn with_client(
        client: reqwest::ClientBuilder,
        secrets: Secrets,
        limits: WebhookLimits,
    ) -> Result<Self, reqwest::Error> {
        crate::tls::install_provider();
        Ok(Self {
            client: client.build()?,
            secrets,
            limits,
        })
    }
}

impl LeaseHandler for Webhook {
    fn slot_return(&self) -> SlotReturn {
        SLOT_RETURN
    }

    fn on_revoked<'a>(
        &'a self,
        revocation: &'a Revocation,
    ) -> BoxFuture<'a, Result<(), HandlerError>> {
        Box::pin(async move {
            if revocation.payload.is_empty() {
                return Ok(());
            }
            let payload = WebhookPayload::parse(&revocation.payload)?;
            self.call(&payload, revocation).await?;
            Ok(())
        })
    }
}
