use std::error::Error;

use lease_shared::{LeaseToken, Revocation, Tenancy};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{ClientBuilder, StatusCode, redirect, retry};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use super::{Webhook, WebhookLimits, WebhookPayload};
use crate::secrets::{SecretError, SecretName};

/// What does not stand in `X-Lease-Holder` as it is; besides, all that is not ASCII.
const HOLDER: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// A call that did not end the resource, as far as is known. Names the host, never path, query or a header's value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// A header's secret is not to be had. Nothing was sent.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A secret is no value of a header. Nothing was sent.
    #[error(
        "secret {name} cannot be sent as header {header}: it must be printable ASCII on one line"
    )]
    Header {
        /// The header.
        header: String,
        /// The secret.
        name: SecretName,
    },
    /// The receiver did not do it.
    #[error("{host} answered {}", status.as_u16())]
    Refused {
        /// Whom we called.
        host: String,
        /// What it said.
        status: StatusCode,
    },
    /// The receiver may have done it or not.
    #[error("call {host}: {problem}")]
    Unanswered {
        /// Whom we called.
        host: String,
        /// What went wrong, in short.
        problem: String,
    },
}

/// A client that does what it is told, once.
pub(super) fn client(limits: WebhookLimits) -> ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("lease/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(limits.connect)
        .timeout(limits.total)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .retry(retry::never())
        // A kept connection may be closed by the time of the next call, which would then fail, or be sent twice.
        .pool_max_idle_per_host(0)
}

impl Webhook {
    pub(super) async fn call(
        &self,
        payload: &WebhookPayload,
        revocation: &Revocation,
    ) -> Result<(), WebhookError> {
        let mut headers = own_headers(payload, revocation);
        for (header, secret) in payload.headers() {
            let value = self.header(header, secret, &revocation.tenancy).await?;
            headers.insert(value.0, value.1);
        }
        let mut request = self
            .client
            .request(payload.method().clone(), payload.url().clone())
            .headers(headers);
        if let Some(body) = payload.body() {
            request = request.body(body.to_owned());
        }
        let host = payload.host();
        // The answer's body is dropped unread, and its connection with it.
        match request.send().await.map(|answer| answer.status()) {
            Ok(status) if is_done(status) => Ok(()),
            Ok(status) => Err(WebhookError::Refused { host, status }),
            Err(error) => Err(WebhookError::Unanswered {
                host,
                problem: self.problem(&error),
            }),
        }
    }

    async fn header(
        &self,
        header: &str,
        secret: &SecretName,
        tenancy: &Tenancy,
    ) -> Result<(HeaderName, HeaderValue), WebhookError> {
        let (tenant, project) = (tenancy.tenant(), tenancy.project());
        let value = self.secrets.resolve(tenant, project, secret).await?;
        let named = HeaderName::from_bytes(header.as_bytes()).ok();
        named
            .zip(header_value(&value))
            .ok_or_else(|| WebhookError::Header {
                header: header.to_owned(),
                name: secret.clone(),
            })
    }

    fn problem(&self, error: &reqwest::Error) -> String {
        let problem = match error {
            _ if error.is_timeout() && error.is_connect() => {
                return format!("no connection within {:?}", self.limits.connect);
            }
            _ if error.is_timeout() => {
                return format!("no answer within {:?}", self.limits.total);
            }
            _ if error.is_connect() => "no connection",
            _ => "the connection ended without an answer",
        };
        // Of the causes only the last says something: `Connection refused`, `invalid peer certificate`.
        match innermost(error) {
            Some(cause) => format!("{problem}: {cause}"),
            None => problem.to_owned(),
        }
    }
}

/// 404 and 410: what is not there, or not there any more, needs no end.
fn is_done(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::NOT_FOUND || status == StatusCode::GONE
}

/// What every call has, before the payload's own.
fn own_headers(payload: &WebhookPayload, revocation: &Revocation) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(body) = payload.body() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(body)));
    }
    let reason = HeaderValue::from_static(revocation.reason.as_str());
    headers.insert("x-lease-reason", reason);
    let holder = utf8_percent_encode(&revocation.holder_ref, HOLDER).to_string();
    if let Ok(holder) = HeaderValue::try_from(holder)
        && !holder.is_empty()
    {
        headers.insert("x-lease-holder", holder);
    }
    if let Ok(key) = HeaderValue::try_from(idempotency_key(&revocation.token)) {
        headers.insert("idempotency-key", key);
    }
    headers
}

fn content_type(body: &str) -> &'static str {
    match serde_json::from_str::<serde::de::IgnoredAny>(body) {
        Ok(_) => "application/json",
        Err(_) => "text/plain; charset=utf-8",
    }
}

/// One-way, and of no use where tokens are asked for.
fn idempotency_key(token: &LeaseToken) -> String {
    let digest = Sha256::digest(format!("webhook:{token}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn header_value(secret: &SecretString) -> Option<HeaderValue> {
    let text = secret.expose_secret();
    if !text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return None;
    }
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn innermost(error: &reqwest::Error) -> Option<&dyn Error> {
    let mut cause = error.source()?;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Some(cause)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lease_shared::RevocationReason;
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::secrets::Secrets;

    /// A receiver that has a certificate for `localhost`, and that certificate.
    async fn receiver() -> (u16, reqwest::Certificate) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        crate::tls::install_provider();
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                if let Ok(mut connection) = acceptor.accept(connection).await {
                    let mut request = [0; 1024];
                    let _ = connection.read(&mut request).await;
                    let _ = connection
                        .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                        .await;
                    let _ = connection.shutdown().await;
                }
            }
        });
        (port, reqwest::Certificate::from_der(cert.der()).unwrap())
    }

    async fn called(client: ClientBuilder, url: &str) -> Result<(), WebhookError> {
        let limits = WebhookLimits::default();
        let webhook = Webhook::with_client(client, Secrets::new(None), limits).unwrap();
        let revocation = Revocation {
            token: LeaseToken::new("0123456789abcdef0123456789abcdef").unwrap(),
            lease_type: super::super::lease_type().unwrap(),
            reason: RevocationReason::Idle,
            tenancy: Tenancy::new("acme", "thesis", "ada").unwrap(),
            holder_ref: String::new(),
            pod: None,
            pod_bound: false,
            payload: Default::default(),
        };
        webhook
            .call(&WebhookPayload::new(url).unwrap(), &revocation)
            .await
    }

    #[test]
    fn value_of_a_header_is_shown_to_no_debugger() {
        let value = header_value(&"Bearer hunter2".into()).unwrap();
        assert!(!format!("{value:?}").contains("hunter2"));
    }

    #[tokio::test]
    async fn https_needs_a_certificate_that_is_trusted_for_the_host() {
        let (port, certificate) = receiver().await;
        let (name, number) = (
            format!("https://localhost:{port}/"),
            format!("https://127.0.0.1:{port}/"),
        );
        let plain = || client(WebhookLimits::default());
        let trusting = || plain().tls_certs_only([certificate.clone()]);
        called(trusting(), &name).await.unwrap();
        for (client, url) in [(plain(), &name), (trusting(), &number)] {
            let error = called(client, url).await.unwrap_err().to_string();
            assert!(error.contains("no connection: "), "{error}");
            assert!(error.contains("certificate"), "{error}");
        }
    }
}
