//! A small site on loopback under a strict policy.

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::middleware::map_response;
use axum::response::{Html, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'";

/// The site. Dropped, it is gone.
pub(crate) struct Site {
    url: String,
    serving: JoinHandle<()>,
}

impl Site {
    /// One page and the script that it may have.
    pub(crate) async fn of_page(body: &str, script: &'static str) -> Result<Self> {
        let page = page(body);
        let script = ([("content-type", "text/javascript")], script);
        let under_policy = |mut response: Response| async {
            let policy = HeaderValue::from_static(POLICY);
            response
                .headers_mut()
                .insert(CONTENT_SECURITY_POLICY, policy);
            response
        };
        let app = Router::new()
            .route("/", get(move || async { Html(page) }))
            .route("/script.js", get(move || async move { script }))
            .layer(map_response(under_policy));
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let address = listener.local_addr()?;
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self {
            url: format!("http://{address}/"),
            serving,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An icon of its own keeps the browser from asking for one.
fn page(body: &str) -> String {
    format!(
        r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <link rel="icon" href="data:,"><script src="/script.js" defer></script></head>
        <body><main><h1>A page</h1>{body}</main></body></html>"#
    )
}
