//! What a token says of its bearer.

use jiff::Timestamp;
use lease_shared::Tenancy;
use serde::Deserialize;
use serde_json::Value;

use super::{Caller, Denied, Expected, NO_ISSUER};

/// The claims whose signature, time and audience have been judged. Of any kind, so that a wrong one can be named.
#[derive(Deserialize)]
pub(super) struct Claims {
    #[serde(default)]
    sub: Value,
    #[serde(default)]
    tenant: Value,
    #[serde(default)]
    roles: Value,
    #[serde(default)]
    exp: Value,
    #[serde(default)]
    iss: Value,
}

impl Claims {
    pub(super) fn caller(self, expected: &Expected) -> Result<Caller, Denied> {
        // The library also takes none, or a list in which the issuer is one of several.
        if expected.issuer.is_some() && !self.iss.is_string() {
            return Err(Denied::Invalid(NO_ISSUER));
        }
        let subject = text(self.sub)
            .filter(|it| is_plain(it))
            .ok_or(Denied::Invalid(
                "its `sub` is not 1 to 128 bytes without control characters",
            ))?;
        let tenant = text(self.tenant)
            .filter(|it| may_be_a_tenant(it))
            .ok_or(Denied::Invalid(
                "its `tenant` is not 1 to 128 bytes without control characters, or a reserved name",
            ))?;
        let roles = texts(self.roles).ok_or(Denied::Invalid("its `roles` are no list of texts"))?;
        let expires_at = time(&self.exp).ok_or(Denied::Invalid("its `exp` is no time"))?;
        Ok(Caller {
            subject,
            tenant,
            roles,
            expires_at,
        })
    }
}

pub(super) fn is_plain(text: &str) -> bool {
    (1..=128).contains(&text.len()) && !text.contains(char::is_control)
}

/// The rule for the tenant of a lease.
fn may_be_a_tenant(tenant: &str) -> bool {
    Tenancy::new(tenant, "-", "-").is_ok()
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn texts(value: Value) -> Option<Vec<String>> {
    match value {
        Value::Array(values) => values.into_iter().map(text).collect(),
        _ => None,
    }
}

/// Whole seconds; the standard also allows parts of one, which are left out.
fn time(value: &Value) -> Option<Timestamp> {
    let seconds = value.as_i64().or_else(|| {
        // What is out of range becomes a number that no time has.
        value.as_f64().map(|seconds| seconds as i64)
    })?;
    Timestamp::from_second(seconds).ok()
}
