//! Compiles a document, and tells how far it is while it does.

use std::pin::pin;
use std::time::Duration;

use addon_tex::{Engine, Limits, MainFile, Progress, Sources, TexJob, TexResult};
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, Query, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use lease_shared::{Tenancy, in_full};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::Served;
use super::problem::Refusal;
use crate::api::{Problem, TexLine, TexOutcome, TexProgress, TexQuery, TexState};
use crate::tex::{PLACES, SettingsError, Tex, Told, code};

/// How long the upload may take.
const UPLOAD: Duration = Duration::from_secs(120);
/// How long a caller may take to read the result.
const FETCH: Duration = Duration::from_secs(120);
/// How much of a PDF is handed over at once: what is not read is waited for.
const PART: usize = 64 * 1024;
/// The longest silence of an answer.
const SILENCE: Duration = Duration::from_secs(5);

/// The body is a zip file. The answer is lines of JSON, [`TexLine`], the last of which is the result; the PDF's bytes follow
/// it. A caller that goes away ends its compilation.
pub(crate) async fn compile(
    served: Served,
    query: Result<Query<TexQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let tex = served
        .tex
        .clone()
        .ok_or_else(|| Refusal::not_found(Problem::NO_TEX, "this brain compiles no documents"))?;
    if served.stopping.is_cancelled() {
        return Err(Refusal::draining());
    }
    let bad =
        |message: String| Refusal::new(StatusCode::BAD_REQUEST, Problem::BAD_REQUEST, message);
    let Query(query) = query.map_err(|rejection| bad(rejection.body_text()))?;
    let tenancy = Tenancy::new(query.tenant, query.project, query.user)?;
    let main = MainFile::new(query.main).map_err(|error| bad(in_full(&error)))?;
    let engine = match query.engine.as_deref() {
        Some(engine) => engine.parse().map_err(|error| bad(in_full(&error)))?,
        None => Engine::default(),
    };
    let place = tex.place().ok_or_else(|| {
        let problem = format!(
            "this brain has {PLACES} documents in work already: try again soon, or another brain"
        );
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, Problem::TOO_MANY, problem)
    })?;
    let zip = tokio::time::timeout(UPLOAD, Bytes::from_request(request, &())).await;
    let zip = zip.map_err(|_| {
        let problem = "the zip file did not come in time";
        Refusal::new(StatusCode::REQUEST_TIMEOUT, Problem::BAD_REQUEST, problem)
    })?;
    let zip = zip.map_err(|rejection| {
        Refusal::new(
            rejection.status(),
            Problem::BAD_REQUEST,
            rejection.body_text(),
        )
    })?;
    // Inflating takes a processor for a while.
    let unpacked = tokio::task::spawn_blocking(move || Sources::from_zip(&zip, Limits::default()));
    let sources = unpacked
        .await
        .map_err(|_| bad("the zip file could not be read".to_owned()))?
        .map_err(|error| bad(in_full(&error)))?;
    let job = TexJob {
        sources,
        main,
        engine,
    };
    let (lines, written) = mpsc::channel(16);
    // Ends with the answer, whoever ends that.
    let compiling = AbortOnDropHandle::new(tokio::spawn(run(tex, tenancy, job, lines)));
    // The place is taken until the answer is gone: the PDF is in memory as well.
    let body = stream::unfold(
        (written, (compiling, place)),
        async |(mut written, compiling)| {
            let bytes: Bytes = written.recv().await?;
            Some((
                Ok::<_, std::convert::Infallible>(bytes),
                (written, compiling),
            ))
        },
    );
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::from_stream(body)).into_response())
}

async fn run(tex: Tex, tenancy: Tenancy, job: TexJob, lines: mpsc::Sender<Bytes>) {
    let begun = Instant::now();
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut compiling = pin!(tex.compile(&tenancy, job, move |progress| {
        // Nobody listens any more, and soon nothing runs.
        let _ = tell.send(progress);
    }));
    let mut latest = said(Told::Progress(Progress::Waiting));
    let mut silence = interval(SILENCE);
    silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let result = loop {
        tokio::select! {
            biased;
            Some(progress) = told.recv() => latest = said(progress),
            result = &mut compiling => break result,
            _ = silence.tick() => {}
        }
        silence.reset();
        latest.elapsed_ms = millis(begun.elapsed());
        // One that does not read misses some, and holds nothing up.
        let told = lines.try_send(line(&TexLine::Progress(latest.clone())));
        if matches!(told, Err(TrySendError::Closed(_))) {
            return;
        }
    };
    let (outcome, pdf) = outcome(result, begun.elapsed());
    let handing_over = async {
        let _ = lines.send(line(&TexLine::Result(outcome))).await;
        let mut pdf = Bytes::from(pdf.unwrap_or_default());
        while !pdf.is_empty() {
            let part = pdf.split_to(pdf.len().min(PART));
            if lines.send(part).await.is_err() {
                return;
            }
        }
    };
    // Nobody's PDF is kept for ever.
    let _ = tokio::time::timeout(FETCH, handing_over).await;
}

fn said(told: Told) -> TexProgress {
    let (state, detail) = match told {
        Told::Busy(diagnosis) => (TexState::Busy, Some(diagnosis)),
        Told::Progress(Progress::Waiting) => (TexState::Waiting, None),
        Told::Progress(Progress::Started { .. }) => (TexState::Started, None),
        Told::Progress(Progress::Running(line)) => (TexState::Running, Some(line)),
        Told::Progress(Progress::Downloading) => (TexState::Downloading, None),
    };
    TexProgress {
        state,
        detail,
        elapsed_ms: 0,
    }
}

fn outcome(
    result: Result<TexResult, SettingsError>,
    elapsed: Duration,
) -> (TexOutcome, Option<Vec<u8>>) {
    let (pdf, log, error) = match result {
        Ok(TexResult {
            pdf, log, error, ..
        }) => (pdf, log, error.map(|error| (code(&error), error.line()))),
        Err(error) => {
            let code = match &error {
                SettingsError::Broken(_) | SettingsError::Name(_) => Problem::INVALID,
                SettingsError::Unavailable(_) => Problem::UNAVAILABLE,
            };
            (None, String::new(), Some((code, in_full(&error))))
        }
    };
    let problem = error.map(|(code, message)| Problem {
        code: code.to_owned(),
        message,
    });
    let outcome = TexOutcome {
        success: pdf.is_some(),
        problem,
        log,
        elapsed_ms: millis(elapsed),
        pdf_bytes: pdf.as_ref().map_or(0, |pdf| pdf.len() as u64),
    };
    (outcome, pdf)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn line(line: &TexLine) -> Bytes {
    // Strings and numbers can always be written.
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes.into()
}
