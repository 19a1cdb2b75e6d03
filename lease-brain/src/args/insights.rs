use std::path::PathBuf;

use clap::Args;

use super::InvalidArgs;
use crate::access::{Access, DEFAULT_AUDIENCE, Expected, SigningSecret};

/// Whose tokens open the page and the API of a tenant.
#[derive(Args, Clone)]
#[command(next_help_heading = "Insights")]
pub struct InsightsArgs {
    /// A file with the secret that signs the tokens (JWT, HS256) of tenants' administrators, at least 32 bytes; white space
    /// around it does not count. Without this and --jwt-jwks, tenants see nothing here.
    #[arg(long, env = "LEASE_JWT_SECRET_FILE", value_name = "PATH")]
    jwt_secret_file: Option<PathBuf>,
    /// The public keys (JWKS) of the identity provider that signs those tokens: a file, or an https URL. Keys that change
    /// are had anew.
    #[arg(long, env = "LEASE_JWT_JWKS", value_name = "PATH|URL")]
    jwt_jwks: Option<String>,
    /// What must be in the `aud` of a token.
    #[arg(
        long,
        env = "LEASE_JWT_AUDIENCE",
        value_name = "TEXT",
        default_value = DEFAULT_AUDIENCE
    )]
    jwt_audience: String,
    /// What the `iss` of a token must be [default: anything].
    #[arg(long, env = "LEASE_JWT_ISSUER", value_name = "TEXT")]
    jwt_issuer: Option<String>,
}

impl InsightsArgs {
    /// Who verifies tokens, if anybody does.
    pub(super) fn resolve(self) -> Result<Option<Access>, InvalidArgs> {
        for (option, value) in [
            ("--jwt-audience", Some(&self.jwt_audience)),
            ("--jwt-issuer", self.jwt_issuer.as_ref()),
        ] {
            // As from a variable that is set to nothing: it would let no token through.
            if value.is_some_and(String::is_empty) {
                return Err(InvalidArgs::Empty(option));
            }
        }
        let expected = Expected {
            audience: self.jwt_audience,
            issuer: self.jwt_issuer,
        };
        match (self.jwt_secret_file, self.jwt_jwks) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(InvalidArgs::TwoKeys),
            (Some(path), None) => {
                let secret = SigningSecret::from_file(&path).map_err(InvalidArgs::JwtSecret)?;
                Ok(Some(Access::by_secret(&secret, expected)))
            }
            (None, Some(place)) => {
                let access = Access::by_jwks(&place, expected).map_err(InvalidArgs::Jwks)?;
                Ok(Some(access))
            }
        }
    }
}
