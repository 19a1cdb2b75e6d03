//! Who someone is: tokens (JWT) that an identity provider signed, or an operator for a try.
//!
//! [`Access`] holds the keys and what a token must say. Whoever may do what is decided by those who ask: a [`Caller`] only
//! says whether it [administers](Caller::administers) a tenant.

mod claims;
mod development;
pub(crate) mod file;
mod keys;
mod loopback;
mod secret;
mod source;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Header, TokenData, Validation, decode, decode_header, get_current_timestamp};

use claims::Claims;
pub use development::{DevelopmentToken, InvalidDevelopmentToken};
use keys::{Key, KeySet, Signed};
pub(crate) use loopback::is_loopback;
pub use secret::{InvalidSecret, SigningSecret};
use source::JwksSource;
pub use source::UnusableJwks;

/// The role of those who may look at a tenant's leases, and revoke them.
pub const ADMIN: &str = "ADMIN";
/// The audience that a token must be for, unless another is configured.
pub const DEFAULT_AUDIENCE: &str = "lease";
/// How many bytes a token may have.
pub const MAX_TOKEN: usize = 8 * 1024;
/// By how many seconds the clocks of two machines may differ.
const LEEWAY: u64 = 10;
const NO_ISSUER: &str = "it has no `iss`, or one that is no text";

/// Verifies tokens. Clones share their keys.
#[derive(Debug, Clone)]
pub struct Access(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    keys: Keys,
    expected: Expected,
}

#[derive(Debug)]
enum Keys {
    Secret(KeySet),
    Jwks(JwksSource),
}

/// What a token must say to be meant for this service.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Must be in its `aud`.
    pub audience: String,
    /// Must be its `iss`, if given.
    pub issuer: Option<String>,
}

/// Who calls, as a verified token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// `sub`: 1 to 128 bytes without control characters.
    pub subject: String,
    /// `tenant`: what a lease's tenant may be.
    pub tenant: String,
    /// `roles`, as they stand there.
    pub roles: Vec<String>,
    /// `exp`.
    pub expires_at: Timestamp,
}

impl Caller {
    /// Whether it has the role [`ADMIN`], written so, in this very tenant.
    pub fn administers(&self, tenant: &str) -> bool {
        self.tenant == tenant && self.roles.iter().any(|role| role == ADMIN)
    }

    /// For how long its token is still good, in whole seconds: zero if that is over.
    pub fn time_left(&self) -> Duration {
        let now = i64::try_from(get_current_timestamp()).unwrap_or(i64::MAX);
        let left = self.expires_at.as_second().saturating_sub(now);
        Duration::from_secs(u64::try_from(left).unwrap_or(0))
    }
}

/// Why a token says nothing of its bearer. Its words have nothing of the token in them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It was good: sign in again.
    #[error("the token has expired: sign in again")]
    Expired,
    /// It will be good.
    #[error("the token is not valid yet: wait, or compare the clocks")]
    NotYetValid,
    /// It never is.
    #[error("the token is not valid: {0}")]
    Invalid(&'static str),
    /// It may be: whether, nobody can say without the keys.
    #[error("the token cannot be verified now: the keys cannot be had")]
    Unavailable,
}

impl Access {
    /// Tokens signed by this secret, with HS256.
    pub fn by_secret(secret: &SigningSecret, expected: Expected) -> Self {
        let keys = Keys::Secret(KeySet::of_secret(secret.decoding_key()));
        Self(Arc::new(Shared { keys, expected }))
    }

    /// Tokens signed by a key of the set (JWKS) at this path or URL. The keys are had anew as long as they are needed: those
    /// of a file within a second of its change, those of a URL within ten minutes, and at once for a token that names an
    /// unknown key, but not over and over. When they cannot be had, the last ones hold for an hour.
    ///
    /// # Errors
    /// It is neither a file with usable keys nor a URL from which such may be fetched. Nothing is fetched yet.
    pub fn by_jwks(place: &str, expected: Expected) -> Result<Self, UnusableJwks> {
        let keys = Keys::Jwks(JwksSource::new(place)?);
        Ok(Self(Arc::new(Shared { keys, expected })))
    }

    /// Who bears this token.
    ///
    /// # Errors
    /// [`Denied`], by what the bearer can do about it.
    ///
    /// # Cancellation
    /// Harmless. A fetch of keys that was begun goes on for others.
    pub async fn caller(&self, token: &str) -> Result<Caller, Denied> {
        if token.len() > MAX_TOKEN {
            return Err(Denied::Invalid("it is too long"));
        }
        let header = decode_header(token).map_err(|_| {
            Denied::Invalid("it is no signed token, or its algorithm is none that is known")
        })?;
        let signed = Signed {
            key_id: header.kid.as_deref(),
            algorithm: header.alg,
        };
        match &self.0.keys {
            Keys::Secret(set) => self.judge(token, &header, set.candidates(&signed)),
            Keys::Jwks(source) => {
                let set = source.keys(&signed).await.ok_or(Denied::Unavailable)?;
                self.judge(token, &header, set.candidates(&signed))
            }
        }
    }

    /// By the first key that signed it. Keys without an id may be several.
    fn judge<'a>(
        &self,
        token: &str,
        header: &Header,
        candidates: impl Iterator<Item = &'a Key>,
    ) -> Result<Caller, Denied> {
        let validation = self.0.expected.validation(header);
        for key in candidates {
            match decode::<Claims>(token, &key.decoding, &validation) {
                Ok(TokenData { claims, .. }) => return claims.caller(&self.0.expected),
                // Else it is not by this key, which may itself be none; the next may be the one.
                Err(error) => {
                    if let Some(denied) = denied(&error) {
                        return Err(denied);
                    }
                }
            }
        }
        Err(Denied::Invalid("no known key has signed it"))
    }
}

impl Expected {
    /// Only for the algorithm of the header: that the key allows it is what made it a candidate.
    fn validation(&self, header: &Header) -> Validation {
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_audience(&[&self.audience]);
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
        }
        validation.set_required_spec_claims(&["exp", "aud"]);
        validation
    }
}

/// What is wrong with a token that the key has signed; nothing, if it has not. The library's own words may quote the token.
fn denied(error: &Error) -> Option<Denied> {
    Some(match error.kind() {
        ErrorKind::ExpiredSignature => Denied::Expired,
        ErrorKind::ImmatureSignature => Denied::NotYetValid,
        ErrorKind::InvalidAudience => Denied::Invalid("it is for another audience"),
        ErrorKind::InvalidIssuer => Denied::Invalid("another issuer has made it"),
        ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
            match claim.as_str() {
                "exp" => Denied::Invalid("it has no `exp`, or one that is no number"),
                "nbf" => Denied::Invalid("its `nbf` is no number"),
                "aud" => Denied::Invalid("it has no `aud`, or one that is neither text nor texts"),
                "iss" => Denied::Invalid(NO_ISSUER),
                _ => Denied::Invalid("a claim is missing"),
            }
        }
        ErrorKind::Json(_) | ErrorKind::Utf8(_) | ErrorKind::Base64(_) => {
            Denied::Invalid("its claims cannot be read")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
