//! The requests to the service.

use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::multipart::{Form, Part};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use rustls::crypto::{CryptoProvider, ring};
use secrecy::ExposeSecret;
use tokio::time::timeout;

use super::reply::{self, Status};
use super::{ApiKeySource, RemoteExecutor};
use crate::error::RemoteFailure;

/// A longer answer is not read, save a PDF.
const REPLY_LIMIT: u64 = 64 << 10;
/// Shorter keys are no secrets, and stand in texts by chance.
const MASKED: usize = 6;
const BAD_ADDRESS: RemoteFailure = RemoteFailure::Config(
    "its address is no http:// or https:// URL without user, query and fragment; correct it",
);

pub(super) struct Client {
    http: reqwest::Client,
    url: Url,
    api_key: Option<ApiKeySource>,
    request_timeout: Duration,
    pdf_limit: u64,
}

/// What the service said.
pub(super) struct Answer {
    pub(super) step: &'static str,
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

impl Client {
    pub(super) fn new(executor: &RemoteExecutor) -> Result<Self, RemoteFailure> {
        let url = service_url(&executor.url)?;
        if CryptoProvider::get_default().is_none() {
            // An error says that another thread has just named one.
            let _ = ring::default_provider().install_default();
        }
        // Neither may lead the sources or the key elsewhere.
        let http = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy();
        let http = http.build().map_err(|error| RemoteFailure::Connection {
            step: "begin",
            source: error.without_url().into(),
        })?;
        Ok(Self {
            http,
            url,
            api_key: executor.api_key.clone(),
            request_timeout: executor.request_timeout,
            pdf_limit: executor.pdf_limit,
        })
    }

    /// Uploads the sources. Gives the job's name.
    pub(super) async fn submit(&self, zip: Vec<u8>, main: &str) -> Result<String, RemoteFailure> {
        let options = serde_json::json!({ "main_file": main }).to_string();
        let part = Part::bytes(zip).file_name("sources.zip");
        let form = Form::new().part("zip_file", part).text("options", options);
        let request = self.request(Method::POST, &["tex2pdf"])?.multipart(form);
        reply::submitted(&self.ask("submit", request, REPLY_LIMIT).await?)
    }

    pub(super) async fn status(&self, job_id: &str) -> Result<Status, RemoteFailure> {
        let request = self.request(Method::GET, &["tex2pdf", "status", job_id])?;
        reply::status(&self.ask("status", request, REPLY_LIMIT).await?)
    }

    pub(super) async fn download(&self, job_id: &str) -> Result<Vec<u8>, RemoteFailure> {
        let request = self.request(Method::GET, &["tex2pdf", "download", job_id])?;
        reply::downloaded(self.ask("download", request, self.pdf_limit).await?)
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, RemoteFailure> {
        let mut url = self.url.clone();
        let segments = url.path_segments_mut();
        segments
            .map_err(|()| BAD_ADDRESS)?
            .pop_if_empty()
            .extend(path);
        Ok(self.http.request(method, url))
    }

    async fn ask(
        &self,
        step: &'static str,
        request: RequestBuilder,
        limit: u64,
    ) -> Result<Answer, RemoteFailure> {
        let answer = timeout(self.request_timeout, self.send(step, request, limit)).await;
        let silent = |_| RemoteFailure::Silent {
            step,
            limit: self.request_timeout,
        };
        answer.map_err(silent)?
    }

    async fn send(
        &self,
        step: &'static str,
        request: RequestBuilder,
        limit: u64,
    ) -> Result<Answer, RemoteFailure> {
        let mut shown = None;
        let request = match &self.api_key {
            Some(api_key) => {
                let key = api_key().await.map_err(RemoteFailure::Key)?;
                let key = shown.insert(key);
                let header = HeaderValue::from_str(key.expose_secret());
                let invalid = |_| {
                    RemoteFailure::Config(
                        "its API key has characters that no header can hold; correct it",
                    )
                };
                let mut header = header.map_err(invalid)?;
                header.set_sensitive(true);
                request.header("X-API-Key", header)
            }
            None => request,
        };
        let broken = |error: reqwest::Error| {
            let is_connect = error.is_connect();
            let source = error.without_url().into();
            if is_connect {
                RemoteFailure::Unreachable(source)
            } else {
                RemoteFailure::Connection { step, source }
            }
        };
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status();
        // Only a PDF may be long.
        let limit = if status.is_success() {
            limit
        } else {
            REPLY_LIMIT
        };
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if (body.len() + chunk.len()) as u64 > limit {
                return Err(RemoteFailure::Strange {
                    step,
                    what: "more than is taken",
                });
            }
            body.extend_from_slice(&chunk);
        }
        // What the service says is shown to people, and it may say what it was shown.
        if let Some(key) = shown.filter(|key| key.expose_secret().len() >= MASKED)
            && !body.starts_with(b"%PDF-")
            && let Ok(text) = std::str::from_utf8(&body)
        {
            body = text.replace(key.expose_secret(), "…").into_bytes();
        }
        Ok(Answer { step, status, body })
    }
}

/// The one check of an address. What passes has a path to add to.
fn service_url(url: &Url) -> Result<Url, RemoteFailure> {
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_plain {
        return Err(BAD_ADDRESS);
    }
    let mut url = url.clone();
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}
