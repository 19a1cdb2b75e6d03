//! The files of the page, embedded, at addresses that change with their contents.

use std::sync::OnceLock;

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// htmx itself.
pub(crate) static HTMX: Asset = Asset::new(
    "htmx-2.0.11.min.js",
    JAVASCRIPT,
    include_str!("assets/htmx-2.0.11.min.js"),
);

/// How the page looks.
pub(crate) static STYLE: Asset =
    Asset::new("insights.css", CSS, include_str!("assets/insights.css"));

/// What the page does beyond htmx.
pub(crate) static SCRIPT: Asset = Asset::new(
    "insights.js",
    JAVASCRIPT,
    include_str!("assets/insights.js"),
);

/// The content of `<meta name="htmx-config">`, by which htmx lives under the page's policy.
pub(crate) const HTMX_CONFIG: &str = include_str!("assets/htmx-config.json");

static ALL: [&Asset; 3] = [&HTMX, &STYLE, &SCRIPT];

const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// How many digits of the digest an address has.
const DIGITS: usize = 12;

/// An embedded file.
#[derive(Debug)]
pub(crate) struct Asset {
    name: &'static str,
    content_type: &'static str,
    text: &'static str,
    version: OnceLock<String>,
}

impl Asset {
    const fn new(name: &'static str, content_type: &'static str, text: &'static str) -> Self {
        Self {
            name,
            content_type,
            text,
            version: OnceLock::new(),
        }
    }

    /// Where it is. The address names the contents, so a browser may keep them forever.
    pub(crate) fn url(&self) -> String {
        format!("/assets/{}?v={}", self.name, self.version())
    }

    fn version(&self) -> &str {
        self.version
            .get_or_init(|| sha256(self.text)[..DIGITS].to_owned())
    }
}

fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the address says beside the name.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    v: Option<String>,
}

/// A file. Only an address that names what is sent is kept: while pods are replaced, an old one may be asked for what
/// a new one has.
pub(crate) async fn asset(Path(name): Path<String>, Query(asked): Query<Asked>) -> Response {
    let Some(asset) = ALL.iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let caching = if asked.v.as_deref() == Some(asset.version()) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let headers = [
        (CONTENT_TYPE, asset.content_type),
        (CACHE_CONTROL, caching),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, asset.text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(name: &str, version: Option<&str>) -> Response {
        let v = version.map(str::to_owned);
        asset(Path(name.to_owned()), Query(Asked { v })).await
    }

    #[test]
    fn vendored_file_is_the_one_of_the_readme() {
        let line = format!("\n{}  {}\n", sha256(HTMX.text), HTMX.name);
        assert!(include_str!("assets/README.md").contains(&line), "{line}");
    }

    #[test]
    fn address_names_the_contents() {
        let expected = format!("/assets/insights.css?v={}", &sha256(STYLE.text)[..12]);
        assert_eq!(STYLE.url(), expected);
        assert_eq!(HTMX.url(), "/assets/htmx-2.0.11.min.js?v=d6fdc75f204e");
    }

    #[test]
    fn configuration_is_json() -> serde_json::Result<()> {
        let config: serde_json::Value = serde_json::from_str(HTMX_CONFIG)?;
        assert_eq!(config["allowEval"], false);
        Ok(())
    }

    #[tokio::test]
    async fn only_an_address_that_names_what_is_sent_is_kept() {
        for asset in ALL {
            for (version, caching) in [
                (Some(asset.version()), "public, max-age=31536000, immutable"),
                (Some("another"), "no-cache"),
                (None, "no-cache"),
            ] {
                let answer = ask(asset.name, version).await;
                assert_eq!(answer.status(), StatusCode::OK);
                let headers = answer.headers();
                assert_eq!(headers[CONTENT_TYPE], asset.content_type);
                assert_eq!(headers[CACHE_CONTROL], caching);
                assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
            }
        }
        let answer = ask("README.md", None).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    }
}
