//! One look at the place of a set of keys, bounded in time and size.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lease_shared::in_full;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};

use super::UnusableJwks;
use crate::access::file::read_at_most;
use crate::access::is_loopback;

/// How long a look may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How long a set may be.
const LENGTH: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) enum Place {
    File(PathBuf),
    Url { client: Client, url: Url },
}

impl Place {
    pub(super) fn parse(text: &str) -> Result<Self, UnusableJwks> {
        if !text.contains("://") {
            return Ok(Self::File(text.into()));
        }
        let url = Url::parse(text).map_err(|_| UnusableJwks::Url("is no URL"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UnusableJwks::Url(
                "must be a URL without a user or a password in it",
            ));
        }
        let plain = match url.scheme() {
            "https" => false,
            "http" if url.host_str().is_some_and(is_loopback) => true,
            "http" => {
                return Err(UnusableJwks::Url(
                    "must be an https URL: over http, anybody on the way could put in keys of their own",
                ));
            }
            _ => return Err(UnusableJwks::Url("must be a path, or an https URL")),
        };
        crate::tls::install_provider();
        let client = Client::builder().timeout(LIMIT).redirect(Policy::none());
        let client = match plain {
            // Nothing but this machine is to see it.
            true => client.no_proxy(),
            false => client.https_only(true),
        };
        let client = client
            .build()
            .map_err(|_| UnusableJwks::Url("cannot be fetched: no HTTP client can be made"))?;
        Ok(Self::Url { client, url })
    }

    pub(super) async fn look(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Url { client, url } => fetch(client, url).await,
            Self::File(path) => {
                let path = path.clone();
                let reading = tokio::task::spawn_blocking(move || read(&path));
                match tokio::time::timeout(LIMIT, reading).await {
                    Ok(Ok(read)) => read.map_err(|error| error.to_string()),
                    Ok(Err(ended)) => Err(ended.to_string()),
                    Err(_) => Err("reading takes too long".to_owned()),
                }
            }
        }
    }
}

impl fmt::Display for Place {
    /// Without a query, which may have a secret in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Url { url, .. } => {
                let origin = url.origin().ascii_serialization();
                write!(f, "{origin}{}", url.path())
            }
        }
    }
}

/// The text of a file that may be a set.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, LENGTH)?.ok_or_else(|| io::Error::other("more than 1 MiB"))
}

async fn fetch(client: &Client, url: &Url) -> Result<Vec<u8>, String> {
    let problem = |error: reqwest::Error| in_full(&error.without_url());
    let mut answer = client.get(url.clone()).send().await.map_err(problem)?;
    if answer.status() != StatusCode::OK {
        return Err(format!("the answer has status {}", answer.status()));
    }
    let mut text = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(problem)? {
        if text.len() + chunk.len() > LENGTH {
            return Err("the answer has more than 1 MiB".to_owned());
        }
        text.extend_from_slice(&chunk);
    }
    Ok(text)
}
