//! Asks another pod to run its handler.

use std::time::Duration;

use lease_shared::{Cleanup, PodId};
use secrecy::{ExposeSecret, SecretString};

use crate::api::{INTERNAL_TOKEN, Problem, RevokedCall};
use crate::in_full::in_full;

/// How long the other pod has: its handler's time and some more.
const LIMIT: Duration = Duration::from_secs(40);
/// How long until there is a connection to it.
const CONNECT: Duration = Duration::from_secs(5);
/// How much of an answer is read.
const ANSWER: usize = 64 * 1024;

/// Calls other pods.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    client: reqwest::Client,
    secret: Option<SecretString>,
}

/// What came of asking another pod.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Its handler has ended well.
    Done,
    /// Its handler ran and did not succeed.
    HandlerFailed(String),
    /// It could not be asked, or did not do it.
    NotDone(String),
}

impl Peers {
    pub(crate) fn new(secret: Option<SecretString>) -> Result<Self, reqwest::Error> {
        crate::tls::install_provider();
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(Self { client, secret })
    }

    pub(crate) async fn revoked(&self, endpoint: &str, pod: &PodId, cleanup: &Cleanup) -> Asked {
        let Some(secret) = &self.secret else {
            return Asked::NotDone(
                "no internal token is configured, so no other pod can be asked: start all pods with --internal-token-file"
                    .to_owned(),
            );
        };
        let call = RevokedCall {
            pod: pod.clone(),
            token: cleanup.revocation.token.clone(),
            claim: cleanup.claim().to_owned(),
        };
        let url = format!("{}/internal/lease/revoked", endpoint.trim_end_matches('/'));
        let request = self
            .client
            .post(url)
            .header(INTERNAL_TOKEN, secret.expose_secret())
            .timeout(LIMIT)
            .json(&call);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => {
                return Asked::NotDone(format!(
                    "pod {pod} could not be asked: {}",
                    in_full(&error.without_url())
                ));
            }
        };
        let status = answer.status();
        if status.is_success() {
            return Asked::Done;
        }
        match problem(answer).await {
            Some(Problem { code, message }) if code == Problem::HANDLER_FAILED => {
                Asked::HandlerFailed(message)
            }
            Some(Problem { code, message }) => {
                Asked::NotDone(format!("pod {pod} refused: {code}: {message}"))
            }
            None => Asked::NotDone(format!("pod {pod} refused: {status}")),
        }
    }
}

/// What the other pod says is wrong.
async fn problem(mut answer: reqwest::Response) -> Option<Problem> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        if body.len() + chunk.len() > ANSWER {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&body).ok()
}
