//! What is asked of a pod over HTTP, and what it answers.

use std::time::Duration;

use lease_brain::api::{INTERNAL_TOKEN, JobProgress, Problem, SweepReply};
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use test_mongo::eventually;

use crate::fleet::{Pod, SECRET, SOON};

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) async fn of(answer: reqwest::Response) -> Self {
        Self {
            status: answer.status(),
            text: answer.text().await.unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status and the stable word of a refusal.
    #[track_caller]
    pub(crate) fn refusal(&self) -> (u16, String) {
        let problem: Problem = self.json();
        assert!(!problem.message.is_empty(), "{self:?}");
        (self.status.as_u16(), problem.code)
    }
}

/// A call without the secret.
pub(crate) fn plain(pod: &Pod, method: Method, path: &str) -> reqwest::RequestBuilder {
    // The client wants one even where it encrypts nothing; a second installation is refused, and does no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client
        .request(method, pod.url(path))
        .timeout(Duration::from_secs(20))
}

/// A call with the secret.
pub(crate) fn internal(pod: &Pod, method: Method, path: &str) -> reqwest::RequestBuilder {
    plain(pod, method, path).header(INTERNAL_TOKEN, SECRET)
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Reply {
    Reply::of(request.send().await.unwrap()).await
}

pub(crate) async fn get(pod: &Pod, path: &str) -> Reply {
    send(plain(pod, Method::GET, path)).await
}

pub(crate) async fn post(pod: &Pod, path: &str, body: &Value) -> Reply {
    send(internal(pod, Method::POST, path).json(body)).await
}

/// Waits for the end of a job that this answer says was begun.
pub(crate) async fn job(pod: &Pod, begun: &Reply) -> JobProgress {
    assert_eq!(begun.status, StatusCode::ACCEPTED, "{begun:?}");
    let id = begun.json::<Value>()["job"].as_str().unwrap().to_owned();
    let path = format!("/internal/lease/admin/jobs/{id}");
    let ask = || async { send(internal(pod, Method::GET, &path)).await };
    let done = || async { Ok(ask().await.json::<JobProgress>().done) };
    eventually("the job ends", SOON, done).await.unwrap();
    ask().await.json()
}

/// One round, by this pod, now.
pub(crate) async fn sweep(pod: &Pod) -> SweepReply {
    let begun = send(internal(pod, Method::POST, "/internal/lease/admin/sweep")).await;
    job(pod, &begun).await.sweep.unwrap()
}

/// What `/metrics` says of this series, written as Prometheus does, like `vance_lease_reap{reason="idle"}`. Nothing, if
/// it does not say it.
pub(crate) async fn metric(pod: &Pod, series: &str) -> Option<f64> {
    let reply = get(pod, "/metrics").await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.text.lines().find_map(|line| {
        let value = line.strip_prefix(series)?.strip_prefix(' ')?;
        Some(value.parse().unwrap())
    })
}
