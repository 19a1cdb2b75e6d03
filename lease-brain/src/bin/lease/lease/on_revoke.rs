//! What is called when a lease is revoked.

use clap::Args;
use lease_brain::handlers::webhook::{InvalidPayload, PayloadKey, WebhookPayload};

use crate::exit::{USAGE, coded};

/// Said where nothing is capped.
pub(crate) const NEVER_CALLED: &str = "the definition caps nothing, so nothing is held that could be revoked, and the \
                                       URL of --on-revoke will never be called";

/// Said of a header that is given as it would be sent. It is not shown.
const NO_HEADER: &str = "--on-revoke-header must be NAME={{secret:NAME}}, for example Authorization={{secret:PLUG}}: a brain \
                         puts in what it has under that name in its --secrets-dir";

/// The options for it.
#[derive(Args)]
#[command(next_help_heading = "On revocation")]
pub(crate) struct OnRevoke {
    /// A URL (http or https) to call when the lease is revoked: this process and its machine have vanished, the lease has
    /// expired, or an operator revoked it. For what goes on when the command is dead: a bench under power, a job on
    /// another machine.
    ///
    /// A running brain calls it, until the answer is 2xx, 404 or 410, and only then is the slot given to another; where
    /// no brain runs, the slot stays taken. It is not called when the command ends by itself. It may be called more than
    /// once; `Idempotency-Key` is then the same. `X-Lease-Reason` (idle, pod or revoke) and `X-Lease-Holder` say why and
    /// for whom. The URL and the body stand in the store, so no secret belongs there.
    #[arg(long, value_name = "URL")]
    on_revoke: Option<String>,
    /// The method: POST, PUT, DELETE, PATCH or GET; POST if not said.
    #[arg(long, value_name = "METHOD", requires = "on_revoke")]
    on_revoke_method: Option<String>,
    /// The body, at most 16 KiB; sent as JSON if it is JSON, otherwise as plain text.
    #[arg(long, value_name = "TEXT", requires = "on_revoke")]
    on_revoke_body: Option<String>,
    /// A header, such as `Authorization={{secret:PLUG}}`; any number of times. Its value is always the name of a secret
    /// that the brain has for this tenant and project, in its `brain --secrets-dir`, so that no credential is stored with the
    /// lease.
    #[arg(long, value_name = "NAME={{secret:NAME}}", requires = "on_revoke")]
    on_revoke_header: Vec<String>,
}

impl OnRevoke {
    /// What the lease is acquired with, if there is something to call.
    pub(crate) fn payload(&self) -> anyhow::Result<Option<WebhookPayload>> {
        let Some(url) = &self.on_revoke else {
            return Ok(None);
        };
        if self.on_revoke_header.iter().any(|given| is_line(given)) {
            return Err(coded(USAGE, NO_HEADER));
        }
        let payload = self.checked(url);
        payload
            .map(Some)
            .map_err(|invalid| coded(USAGE, self.explain(&invalid)))
    }

    fn checked(&self, url: &str) -> Result<WebhookPayload, InvalidPayload> {
        let mut payload = WebhookPayload::new(url)?;
        if let Some(method) = &self.on_revoke_method {
            payload = payload.with_method(method)?;
        }
        if let Some(body) = &self.on_revoke_body {
            payload = payload.with_body(body)?;
        }
        for header in &self.on_revoke_header {
            let (name, value) = header.split_once('=').unwrap_or((header, ""));
            payload = payload.with_header(name, value)?;
        }
        Ok(payload)
    }

    /// Names the option and what was given, except where that may be a credential: this line ends in logs.
    fn explain(&self, InvalidPayload { key, rule }: &InvalidPayload) -> String {
        let given = |text: &Option<String>| text.clone().unwrap_or_default();
        let option = match key {
            PayloadKey::Url => match given(&self.on_revoke) {
                url if url.contains('@') => "--on-revoke …@…".to_owned(),
                url => format!("--on-revoke {:?}", cut(&url)),
            },
            PayloadKey::Method => format!("--on-revoke-method {:?}", given(&self.on_revoke_method)),
            PayloadKey::Body => {
                let bytes = given(&self.on_revoke_body).len();
                format!("--on-revoke-body with {bytes} bytes")
            }
            PayloadKey::Header(name) => format!("--on-revoke-header {name}=…"),
            PayloadKey::Headers => {
                format!("--on-revoke-header {} times", self.on_revoke_header.len())
            }
            PayloadKey::Unknown(key) => key.clone(),
        };
        format!("{option}: {rule}")
    }
}

/// Is it a header as it is sent, or anything else without a name before a `=`? Then there is no telling what of it is a
/// credential, and base64 may end with the only `=`.
fn is_line(given: &str) -> bool {
    given
        .split_once('=')
        .is_none_or(|(name, _)| name.contains(':'))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
