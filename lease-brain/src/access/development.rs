//! Tokens for a try, and for where there is no identity provider.

use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, Header, encode, get_current_timestamp};
use lease_shared::{InvalidName, Tenancy};
use serde_json::json;

use super::claims::is_plain;
use super::{Expected, SigningSecret};

/// The longest that such a token is valid.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
const SHORTEST: Duration = Duration::from_secs(1);

/// What a token is to say of its bearer.
#[derive(Debug, Clone)]
pub struct DevelopmentToken {
    /// Who it is.
    pub subject: String,
    /// Whose leases it is about.
    pub tenant: String,
    /// What it may do there.
    pub roles: Vec<String>,
    /// How long it is valid: 1 second to 24 hours.
    pub ttl: Duration,
}

/// A token that no brain would take, or that would be valid for too long.
#[derive(Debug, thiserror::Error)]
pub enum InvalidDevelopmentToken {
    /// No lease has such a tenant.
    #[error(transparent)]
    Tenant(#[from] InvalidName),
    /// Nobody is called that.
    #[error("the subject must be 1 to 128 bytes without control characters")]
    Subject,
    /// It opens nothing.
    #[error("a role must be 1 to 128 bytes without control characters, for example ADMIN")]
    Role,
    /// No brain takes it.
    #[error(
        "the audience must be 1 to 128 bytes without control characters, and what the brain has as --jwt-audience"
    )]
    Audience,
    /// Such a token must not be a key for ever.
    #[error("such a token is valid for 1 second to 24 hours")]
    Ttl,
    /// The secret does not sign.
    #[error("sign the token")]
    Signing(#[source] jsonwebtoken::errors::Error),
}

impl DevelopmentToken {
    /// Signs it, for the audience and from the issuer that a brain expects. Gives the token, and its `exp`.
    ///
    /// # Errors
    /// [`InvalidDevelopmentToken`].
    pub fn sign(
        &self,
        secret: &SigningSecret,
        expected: &Expected,
    ) -> Result<(String, Timestamp), InvalidDevelopmentToken> {
        Tenancy::new(&self.tenant, "-", "-")?;
        if !is_plain(&self.subject) {
            return Err(InvalidDevelopmentToken::Subject);
        }
        if self.roles.is_empty() || !self.roles.iter().all(|role| is_plain(role)) {
            return Err(InvalidDevelopmentToken::Role);
        }
        if !is_plain(&expected.audience) {
            return Err(InvalidDevelopmentToken::Audience);
        }
        if !(SHORTEST..=LONGEST).contains(&self.ttl) {
            return Err(InvalidDevelopmentToken::Ttl);
        }
        // The clock of whoever verifies it counts, and it is this one's or near it.
        let now = get_current_timestamp();
        let expires = now.saturating_add(self.ttl.as_secs());
        let expires_at = i64::try_from(expires).ok();
        let expires_at = expires_at.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let expires_at = expires_at.ok_or(InvalidDevelopmentToken::Ttl)?;
        let mut claims = json!({
            "sub": self.subject,
            "tenant": self.tenant,
            "roles": self.roles,
            "aud": expected.audience,
            "iat": now,
            "exp": expires,
        });
        if let Some(issuer) = &expected.issuer {
            claims["iss"] = issuer.as_str().into();
        }
        let token = encode(
            &Header::new(Algorithm::HS256),
            &claims,
            secret.encoding_key(),
        )
        .map_err(InvalidDevelopmentToken::Signing)?;
        Ok((token, expires_at))
    }
}
