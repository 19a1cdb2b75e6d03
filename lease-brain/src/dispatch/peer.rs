//! Asks another pod to run its handler.

use std::time::Duration;

use lease_shared::{Cleanup, Cleanups, PodId, in_full};
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use supervise::BootInstant;

use crate::api::{INTERNAL_TOKEN, POD, Problem, RevokedCall};

/// How long the other pod has: its handler's time and some more.
const LIMIT: Duration = Duration::from_secs(40);
/// What of a claim's time is not the other pod's: its handler has ended before the caller gives it up, and so before the
/// caller's own begins.
pub(crate) const AFTERWARDS: Duration = Cleanups::CLAIM.saturating_sub(LIMIT);
/// How long between two questions, when it is not known what became of the first.
const PAUSE: Duration = Duration::from_millis(500);
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
    /// It was never asked, or said that it does not do it.
    NotDone(String),
    /// It may have been asked, and its handler may be running.
    Unknown(String),
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

    /// Asks a pod until it is certain that its handler does not run any more, for another's is to run if it did not do it.
    /// When the pod's time is over, that is certain too.
    pub(crate) async fn surely(&self, endpoint: &str, pod: &PodId, cleanup: &Cleanup) -> Asked {
        let until = BootInstant::now() + LIMIT;
        let mut doubt = false;
        loop {
            match self.ask(endpoint, pod, cleanup, until.remaining()).await {
                Asked::NotDone(problem) if !doubt => return Asked::NotDone(problem),
                Asked::NotDone(problem) | Asked::Unknown(problem) => {
                    if until.remaining() <= PAUSE {
                        tokio::time::sleep(until.remaining()).await;
                        return Asked::NotDone(problem);
                    }
                    doubt = true;
                    tokio::time::sleep(PAUSE).await;
                }
                known => return known,
            }
        }
    }

    /// Asks a pod once.
    pub(crate) async fn once(&self, endpoint: &str, pod: &PodId, cleanup: &Cleanup) -> Asked {
        self.ask(endpoint, pod, cleanup, LIMIT).await
    }

    async fn ask(&self, endpoint: &str, pod: &PodId, cleanup: &Cleanup, limit: Duration) -> Asked {
        let Some(secret) = &self.secret else {
            return Asked::NotDone(
                "no internal token is configured, so no other pod can be asked: start all pods with --internal-token-file"
                    .to_owned(),
            );
        };
        let Ok(mut secret) = HeaderValue::from_str(secret.expose_secret()) else {
            return Asked::NotDone("the internal token cannot be sent in a header".to_owned());
        };
        secret.set_sensitive(true);
        let call = RevokedCall {
            pod: pod.clone(),
            token: cleanup.revocation.token.clone(),
            claim: cleanup.claim().to_owned(),
        };
        let url = format!("{}/internal/lease/revoked", endpoint.trim_end_matches('/'));
        let request = self
            .client
            .post(url)
            .header(INTERNAL_TOKEN, secret)
            .timeout(limit)
            .json(&call);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => {
                let asked = match error.is_connect() {
                    true => Asked::NotDone,
                    false => Asked::Unknown,
                };
                let problem = in_full(&error.without_url());
                return asked(format!("pod {pod} could not be asked: {problem}"));
            }
        };
        let status = answer.status();
        let by = answer.headers().get(POD).map(|by| by.as_bytes());
        if status == StatusCode::NO_CONTENT && by == Some(pod.as_str().as_bytes()) {
            return Asked::Done;
        }
        match problem(answer).await {
            Some(Problem { code, message }) if code == Problem::HANDLER_FAILED => {
                Asked::HandlerFailed(message)
            }
            Some(Problem { code, message }) => {
                Asked::NotDone(format!("pod {pod} refused: {code}: {message}"))
            }
            // Not in a pod's words, so from something between us, or in its place.
            None => Asked::Unknown(format!("pod {pod} refused: {status}")),
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
