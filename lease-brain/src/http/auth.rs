//! Who may call.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::problem::Refusal;
use crate::api::INTERNAL_TOKEN;

/// The secret of internal calls, if one is configured.
#[derive(Debug, Clone)]
pub(crate) struct InternalSecret(pub(crate) Option<SecretString>);

impl InternalSecret {
    /// Compares digests, which have one length: so neither the time nor an early return tells anything of the secret.
    fn accepts(&self, given: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|secret| {
            let expected = Sha256::digest(secret.expose_secret().as_bytes());
            Sha256::digest(given).ct_eq(&expected).into()
        })
    }
}

/// Lets internal calls through that carry the secret. Without a configured one, none.
pub(crate) async fn internal(
    State(secret): State<InternalSecret>,
    request: Request,
    next: Next,
) -> Response {
    let given = request.headers().get(INTERNAL_TOKEN);
    match given {
        Some(given) if secret.accepts(given.as_bytes()) => next.run(request).await,
        _ if secret.0.is_none() => Refusal::forbidden(
            "this brain has no internal token, so it refuses internal calls: start it with --internal-token-file",
        )
        .into_response(),
        Some(_) => Refusal::forbidden("the internal token is wrong").into_response(),
        None => Refusal::forbidden("the header X-Vance-Internal-Token is missing").into_response(),
    }
}
