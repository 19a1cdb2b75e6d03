//! A tex2pdf service whose jobs run until they are released, and that counts how many run at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// For what takes a few polls, on a loaded machine.
const SOON: Duration = Duration::from_secs(40);

pub(crate) const PDF: &[u8] = b"%PDF-1.5 of the service";

pub(crate) struct Service {
    url: String,
    jobs: Arc<Jobs>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Jobs {
    state: Mutex<All>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct All {
    /// The main file of each job, by its id, and its status.
    jobs: BTreeMap<String, (String, String)>,
    keys: Vec<Option<String>>,
    /// The most that ran at once, by the prefixes of their main files.
    most: BTreeMap<String, usize>,
    forgets: bool,
}

impl Jobs {
    fn all(&self) -> MutexGuard<'_, All> {
        self.state.lock().unwrap()
    }
}

impl All {
    fn running(&self, prefix: &str) -> usize {
        let its =
            |(main, status): &&(String, String)| main.starts_with(prefix) && status == "processing";
        self.jobs.values().filter(its).count()
    }
}

impl Service {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let jobs = Arc::new(Jobs::default());
        let app = Router::new()
            .route("/tex2pdf", post(submit))
            .route("/tex2pdf/status/{job}", get(status))
            .route("/tex2pdf/download/{job}", get(download))
            .with_state(Arc::clone(&jobs));
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            url,
            jobs,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn submitted(&self) -> usize {
        self.jobs.all().jobs.len()
    }

    /// How many run now.
    pub(crate) fn running(&self) -> usize {
        self.jobs.all().running("")
    }

    /// The most that ran at once, of those whose main file begins so.
    pub(crate) fn most(&self, prefix: &str) -> usize {
        self.jobs
            .all()
            .most
            .get(prefix)
            .copied()
            .unwrap_or_default()
    }

    /// The API keys that it was shown.
    pub(crate) fn keys(&self) -> Vec<Option<String>> {
        self.jobs.all().keys.clone()
    }

    /// Ends one job that runs, so.
    pub(crate) fn end_one(&self, how: &str) {
        let mut all = self.jobs.all();
        let running = all
            .jobs
            .values_mut()
            .find(|(_, status)| status == "processing");
        running.expect("a job runs").1 = how.to_owned();
        drop(all);
        self.jobs.changes.send_modify(|changes| *changes += 1);
    }

    /// Knows no job any more.
    pub(crate) fn forget(&self) {
        self.jobs.all().forgets = true;
    }

    /// Waits until `seen` is so.
    pub(crate) async fn until(&self, what: &str, seen: impl Fn(&Self) -> bool) {
        let mut changes = self.jobs.changes.subscribe();
        let waited = tokio::time::timeout(SOON, async {
            while !seen(self) {
                let _ = changes.changed().await;
            }
        });
        assert!(waited.await.is_ok(), "not seen: {what}");
    }
}

fn note(jobs: &Jobs, headers: &HeaderMap) {
    let key = headers.get("x-api-key");
    let key = key.map(|key| key.to_str().unwrap().to_owned());
    jobs.all().keys.push(key);
}

async fn submit(
    State(jobs): State<Arc<Jobs>>,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    note(&jobs, &headers);
    let text = String::from_utf8_lossy(&body);
    let main = text
        .split("\"main_file\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let main = main.expect("a main file").to_owned();
    let id = {
        let mut all = jobs.all();
        let id = format!("job-{}", all.jobs.len());
        all.jobs
            .insert(id.clone(), (main.clone(), "processing".to_owned()));
        // A main file is called tenant-project-anything.tex.
        let parts: Vec<&str> = main.split('-').collect();
        for prefix in [
            String::new(),
            parts[0].to_owned() + "-",
            parts[..parts.len().min(2)].join("-"),
        ] {
            let running = all.running(&prefix);
            let most = all.most.entry(prefix).or_default();
            *most = running.max(*most);
        }
        id
    };
    jobs.changes.send_modify(|changes| *changes += 1);
    axum::Json(json!({ "job_id": id, "status": "processing", "message": "Conversion job started" }))
}

fn no_job() -> Response {
    let said = axum::Json(json!({ "detail": "Job not found" }));
    (StatusCode::NOT_FOUND, said).into_response()
}

async fn status(
    State(jobs): State<Arc<Jobs>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    note(&jobs, &headers);
    let all = jobs.all();
    let Some((_, status)) = all.jobs.get(&id).filter(|_| !all.forgets) else {
        return no_job();
    };
    let said: Value =
        json!({ "job_id": id, "status": status, "created_at": 1.5, "error": "it was told to" });
    axum::Json(said).into_response()
}

async fn download(
    State(jobs): State<Arc<Jobs>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    note(&jobs, &headers);
    match jobs.all().jobs.contains_key(&id) {
        true => ([("content-type", "application/pdf")], PDF).into_response(),
        false => no_job(),
    }
}
