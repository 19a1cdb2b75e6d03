//! `lease token`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lease_brain::access::{
    ADMIN, DEFAULT_AUDIENCE, DevelopmentToken, Expected, InvalidDevelopmentToken, SigningSecret,
};
use serde::Serialize;

use crate::exit::{USAGE, coded};
use crate::output;

/// Make a token for a tenant's page and its API, signed with the secret of a brain: for a try, and where there is no identity
/// provider.
///
/// Who has it sees the tenant's leases and revokes them until it expires; it cannot be taken back before. It needs neither
/// MongoDB nor a brain.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    lease token --tenant acme --secret-file /run/secrets/jwt\n  \
    curl -H \"Authorization: Bearer $(lease token --tenant acme --ttl 5m)\" http://127.0.0.1:7311/api/insights/acme/me")]
pub(crate) struct Opts {
    /// The tenant whose leases it is about.
    #[arg(long, env = "LEASE_TENANT")]
    tenant: String,
    /// What its bearer may do there; can be given several times.
    #[arg(long = "role", value_name = "ROLE", default_value = ADMIN)]
    roles: Vec<String>,
    /// Who its bearer is.
    #[arg(long, env = "LEASE_USER", default_value = "operator")]
    subject: String,
    /// What the brain has as --jwt-audience.
    #[arg(long, env = "LEASE_JWT_AUDIENCE", default_value = DEFAULT_AUDIENCE)]
    audience: String,
    /// What the brain has as --jwt-issuer, if it has one.
    #[arg(long, env = "LEASE_JWT_ISSUER")]
    issuer: Option<String>,
    /// How long it is valid, at most 24h.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = lease_brain::args::duration)]
    ttl: Duration,
    /// The file that the brain has as --jwt-secret-file.
    #[arg(long, env = "LEASE_JWT_SECRET_FILE", value_name = "PATH")]
    secret_file: Option<PathBuf>,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    token: String,
    expires_at: String,
    tenant: String,
    subject: String,
    roles: Vec<String>,
    audience: String,
    issuer: Option<String>,
}

pub(crate) fn run(opts: Opts, json: bool) -> anyhow::Result<ExitCode> {
    let path = opts.secret_file.ok_or_else(|| {
        let problem = "no secret to sign with: name the file that the brain has as --jwt-secret-file, with \
                       --secret-file or LEASE_JWT_SECRET_FILE";
        coded(USAGE, problem)
    })?;
    let secret = SigningSecret::from_file(&path)
        .map_err(|error| coded(USAGE, format!("--secret-file {error}")))?;
    let wanted = DevelopmentToken {
        subject: opts.subject,
        tenant: opts.tenant,
        roles: opts.roles,
        ttl: opts.ttl,
    };
    let expected = Expected {
        audience: opts.audience,
        issuer: opts.issuer,
    };
    let (token, expires_at) = wanted
        .sign(&secret, &expected)
        .map_err(|error| match error {
            InvalidDevelopmentToken::Tenant(error) => error.into(),
            InvalidDevelopmentToken::Subject => coded(USAGE, format!("--subject: {error}")),
            InvalidDevelopmentToken::Role => coded(USAGE, format!("--role: {error}")),
            InvalidDevelopmentToken::Audience => coded(USAGE, format!("--audience: {error}")),
            InvalidDevelopmentToken::Ttl => coded(USAGE, format!("--ttl: {error}")),
            InvalidDevelopmentToken::Signing(_) => anyhow::Error::from(error),
        })?;
    match json {
        false => output::line(&token)?,
        true => output::json(&Made {
            token,
            expires_at: expires_at.to_string(),
            tenant: wanted.tenant,
            subject: wanted.subject,
            roles: wanted.roles,
            audience: expected.audience,
            issuer: expected.issuer,
        })?,
    }
    Ok(ExitCode::SUCCESS)
}
