//! Who is let in to a tenant's leases, and who is not.

mod api;
mod browser;
mod hostile;
mod htmx;
mod keys;
mod page;
mod provider;
mod rights;
mod session;
mod stream;
pub(crate) mod tokens;

use lease_brain::api::Problem;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder, Response};
use tempfile::TempDir;

use crate::fleet::{Fleet, Pod, PodOptions};
use tokens::SECRET;

/// Whose leases a tenant called this sees.
const ME: &str = "/api/insights/acme/me";

/// A brain, what it verifies tokens with, and the database it is on.
struct World {
    pod: Pod,
    /// What the brain's files are in.
    folder: TempDir,
    fleet: Fleet,
}

impl World {
    /// With the secret of the tests.
    async fn with_secret(args: &[&str]) -> Self {
        Self::on(Fleet::new().await, args).await
    }

    /// The same, on this database.
    async fn on(fleet: Fleet, args: &[&str]) -> Self {
        Self::on_pod(fleet, "a", args).await
    }

    /// The same, in a pod of this name.
    async fn on_pod(fleet: Fleet, name: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, format!("{SECRET}\n")).unwrap();
        let secret = format!("--jwt-secret-file={}", path.display());
        let options = PodOptions::with(&[&[&*secret], args].concat());
        let pod = fleet.pod_with(name, options).await;
        Self { pod, folder, fleet }
    }

    async fn start(fleet: Fleet, folder: TempDir, args: &[&str]) -> Self {
        let pod = fleet.pod_with("a", PodOptions::with(args)).await;
        Self { pod, folder, fleet }
    }

    fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        client.request(method, self.pod.url(path))
    }

    /// The status and the stable word with which this token is answered, `OK` if it is let in.
    async fn tried(&self, token: &str) -> (u16, String) {
        let call = self.ask(Method::GET, ME).bearer_auth(token);
        judged(call.send().await.unwrap()).await
    }

    /// A form posted as the brain's own page would.
    fn form(&self, path: &str, token: &str) -> RequestBuilder {
        let call = self.ask(Method::POST, path);
        with_form(call, token).header("sec-fetch-site", "same-origin")
    }
}

/// With a form that has a token in it.
fn with_form(call: RequestBuilder, token: &str) -> RequestBuilder {
    call.header("content-type", "application/x-www-form-urlencoded")
        .body(format!(
            "token={}",
            utf8_percent_encode(token, NON_ALPHANUMERIC)
        ))
}

async fn judged(answer: Response) -> (u16, String) {
    let status = answer.status();
    if status.is_success() {
        return (status.as_u16(), "OK".to_owned());
    }
    if status == 401 {
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    }
    let problem: Problem = answer.json().await.unwrap();
    assert!(!problem.message.is_empty());
    (status.as_u16(), problem.code)
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}
