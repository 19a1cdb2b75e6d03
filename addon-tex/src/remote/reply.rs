//! What the service's answers mean.

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::client::Answer;
use crate::error::RemoteFailure;
use crate::text::one_line;

/// How a job is doing.
#[derive(Debug, PartialEq)]
pub(super) enum Status {
    Running(String),
    Done,
    Failed(String),
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    job_id: Option<String>,
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    progress: Option<Value>,
}

pub(super) fn submitted(answer: &Answer) -> Result<String, RemoteFailure> {
    if !matches!(answer.status, StatusCode::OK | StatusCode::CREATED) {
        return Err(refused(answer));
    }
    let job = job(answer)?;
    if is_failed(&job.status) {
        let text = job.error.or(job.message).unwrap_or_default();
        return Err(RemoteFailure::NotTaken(said(&text)));
    }
    // It becomes part of an address.
    let plain = |it: &char| it.is_ascii_alphanumeric() || "_-".contains(*it);
    let is_id = |it: &String| (1..=128).contains(&it.len()) && it.chars().all(|it| plain(&it));
    job.job_id.filter(is_id).ok_or(strange(answer, "no job_id"))
}

pub(super) fn status(answer: &Answer) -> Result<Status, RemoteFailure> {
    match answer.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Err(RemoteFailure::Forgotten),
        _ => return Err(refused(answer)),
    }
    let job = job(answer)?;
    Ok(match &*job.status {
        "completed" | "done" => Status::Done,
        it if is_failed(it) => Status::Failed(said(&job.error.or(job.message).unwrap_or_default())),
        _ => {
            let progress = job.progress.and_then(|it| it.as_str().map(one_line));
            Status::Running(progress.unwrap_or_else(|| one_line(&job.status)))
        }
    })
}

pub(super) fn downloaded(answer: Answer) -> Result<Vec<u8>, RemoteFailure> {
    match answer.status {
        StatusCode::OK if answer.body.starts_with(b"%PDF-") => Ok(answer.body),
        StatusCode::OK => Err(strange(&answer, "something that is no PDF")),
        StatusCode::NOT_FOUND => Err(RemoteFailure::Forgotten),
        _ => Err(refused(&answer)),
    }
}

fn is_failed(status: &str) -> bool {
    matches!(status, "failed" | "error")
}

fn job(answer: &Answer) -> Result<Job, RemoteFailure> {
    let job = serde_json::from_slice(&answer.body);
    job.map_err(|_| strange(answer, "something that it never answers with"))
}

fn strange(answer: &Answer, what: &'static str) -> RemoteFailure {
    let step = answer.step;
    RemoteFailure::Strange { step, what }
}

fn refused(answer: &Answer) -> RemoteFailure {
    RemoteFailure::Refused {
        step: answer.step,
        status: answer.status.as_u16(),
        text: said(&detail(&answer.body)),
    }
}

/// `{"detail": "…"}`, `{"detail": [{"loc": ["body", "zip_file"], "msg": "…"}]}`, or any text.
fn detail(body: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    match json.as_ref().and_then(|it| it.get("detail")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(faults)) => {
            let faults = faults.iter().map(|fault| {
                let text = fault.get("msg").and_then(Value::as_str).unwrap_or_default();
                let place = fault
                    .get("loc")
                    .and_then(Value::as_array)
                    .and_then(|it| it.last()?.as_str());
                place.map_or_else(|| text.to_owned(), |place| format!("{place}: {text}"))
            });
            faults.collect::<Vec<_>>().join("; ")
        }
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

fn said(text: &str) -> String {
    match one_line(text) {
        line if line.is_empty() => "it does not say why".to_owned(),
        line => line,
    }
}
