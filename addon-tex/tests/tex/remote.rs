//! Every answer of the service, and what a user sees then.

use std::sync::Arc;
use std::time::Duration;

use addon_tex::{ApiKeySource, Engine, Executor, TexCompiler};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wiremock::ResponseTemplate;

use crate::bench::{compile_at, document, has, job, line, remote};
use crate::guard::Guard;
use crate::service::{JOB, PDF, Service, json, pdf, plain, status, taken};

const RUNS_ON: &str = "; the remote job runs on until it ends by itself";
const GONE: &str = "closed Gone";
const UNKNOWN: &str = r#"closed Unknown("the remote job runs on until it ends by itself")"#;

fn key(text: &'static str) -> ApiKeySource {
    Arc::new(move || Box::pin(async move { Ok(text.into()) }))
}

/// What a user sees of these answers, and what the guard is told at the end.
async fn check(
    submit: ResponseTemplate,
    statuses: Vec<ResponseTemplate>,
    download: Option<ResponseTemplate>,
    expected: &str,
    closed: &str,
) {
    let guard = Guard::yes();
    let service = Service::start(&guard.events, submit, statuses, download).await;
    let mut executor = remote(&service.server.uri());
    executor.timeout = Duration::from_secs(20);
    executor.api_key = Some(key("SECRET-key"));
    let result = compile_at(executor, document("x"), &guard).await;
    assert_eq!(line(&result), expected);
    assert_eq!(guard.events.all().last().unwrap(), closed);
    let shown = format!("{result:?}");
    assert!(!shown.contains("SECRET"), "{shown}");
    assert!(!shown.contains(&service.server.uri()), "{shown}");
    service.assert_expected();
}

#[tokio::test]
async fn pdf_comes_back_from_a_main_file_in_a_folder() {
    let guard = Guard::yes();
    let service = Service::good(&guard.events).await;
    let mut executor = remote(&(service.server.uri() + "/"));
    executor.api_key = Some(key("SECRET-key"));
    let job = job(&[
        ("paper/v2/a-b_c.tex", b"x"),
        ("paper/v2/fig/x.png", b"y"),
        ("other.tex", b"z"),
    ]);
    let result = compile_at(executor, job, &guard).await;
    assert_eq!(result.pdf.as_deref(), Some(PDF), "{:?}", result.error);
    service.assert_expected();

    let requests = service.server.received_requests().await.unwrap();
    assert!(
        requests
            .iter()
            .all(|it| it.headers["x-api-key"] == "SECRET-key")
    );
    let upload = &requests[0].body;
    assert!(has(upload, r#"name="zip_file"; filename="sources.zip""#));
    assert!(has(upload, r#"{"main_file":"a-b_c.tex"}"#));
    assert!(has(upload, "fig/x.png") && !has(upload, "v2/") && !has(upload, "other.tex"));
}

#[tokio::test]
async fn nobody_is_sent_a_key_that_is_not_configured() {
    let guard = Guard::yes();
    let service = Service::good(&guard.events).await;
    let result = compile_at(remote(&service.server.uri()), document("x"), &guard).await;
    assert!(result.is_success());
    let requests = service.server.received_requests().await.unwrap();
    assert!(
        requests
            .iter()
            .all(|it| !it.headers.contains_key("x-api-key"))
    );
}

#[tokio::test]
async fn key_that_the_service_says_is_not_passed_on() {
    let guard = Guard::yes();
    let refusal = json(400, r#"{"detail":"bad key SECRET-key"}"#);
    let service = Service::start(&guard.events, refusal, vec![], None).await;
    let mut executor = remote(&service.server.uri());
    executor.api_key = Some(key("SECRET-key"));
    let result = compile_at(executor, document("x"), &guard).await;
    let said = line(&result);
    assert!(
        said.contains("bad key …") && !said.contains("SECRET"),
        "{said}"
    );
}

#[tokio::test]
async fn synonyms_of_other_services_are_understood() {
    let guard = Guard::yes();
    let done = vec![
        status(r#"{"status":"queued"}"#),
        status(r#"{"status":"done"}"#),
    ];
    let service = Service::start(
        &guard.events,
        json(201, &format!(r#"{{"job_id":"{JOB}"}}"#)),
        done,
        Some(pdf()),
    )
    .await;
    assert!(
        compile_at(remote(&service.server.uri()), document("x"), &guard)
            .await
            .is_success()
    );
    let failed = vec![status(r#"{"status":"error","error":"bad"}"#)];
    check(
        taken(),
        failed,
        None,
        "TEX_REMOTE the TeX service made no PDF: bad",
        GONE,
    )
    .await;
}

#[tokio::test]
async fn submission_that_failed_with_200_is_a_failure() {
    let failed = |text: &str| {
        json(
            200,
            &format!(r#"{{"job_id":"{JOB}","status":"failed","message":"{text}"}}"#),
        )
    };
    let expected = "TEX_REMOTE the TeX service did not take the document: Invalid ZIP file format";
    check(
        failed("Invalid ZIP file format"),
        vec![],
        None,
        expected,
        GONE,
    )
    .await;
}

#[tokio::test]
async fn refused_submissions_say_why_and_what_to_do() {
    let rows = [
        (
            json(400, r#"{"detail":"Uploaded file must be a zip archive."}"#),
            "(submit, 400): Uploaded file must be a zip archive.",
        ),
        (
            json(400, r#"{"detail":"Main file name must be plain"}"#),
            "(submit, 400): Main file name must be plain",
        ),
        (
            json(401, r#"{"detail":"API key required"}"#),
            "(submit, 401): API key required: set its API key",
        ),
        (
            json(401, r#"{"detail":"Invalid API key"}"#),
            "(submit, 401): Invalid API key: set its API key",
        ),
        (
            json(404, r#"{"detail":"Not Found"}"#),
            "(submit, 404): Not Found: check that its address is that of a tex2pdf service",
        ),
        (
            json(405, r#"{"detail":"Method Not Allowed"}"#),
            "(submit, 405): Method Not Allowed: check that its address is that of a tex2pdf service",
        ),
        (
            json(
                422,
                r#"{"detail":[{"type":"missing","loc":["body","zip_file"],"msg":"Field required","input":null}]}"#,
            ),
            "(submit, 422): zip_file: Field required",
        ),
        (
            json(
                429,
                r#"{"detail":"Rate limit exceeded. Maximum 10 requests per 60 seconds."}"#,
            ),
            "(submit, 429): Rate limit exceeded. Maximum 10 requests per 60 seconds.: try again in a minute",
        ),
        (
            ResponseTemplate::new(302).insert_header("location", "/elsewhere"),
            "(submit, 302): it does not say why: redirects are not followed; set the address that it leads to",
        ),
        (
            ResponseTemplate::new(307).insert_header("location", "/elsewhere"),
            "(submit, 307): it does not say why: redirects are not followed; set the address that it leads to",
        ),
    ];
    for (answer, expected) in rows {
        check(
            answer,
            vec![],
            None,
            &format!("TEX_REMOTE the TeX service refused {expected}"),
            GONE,
        )
        .await;
    }
}

#[tokio::test]
async fn broken_service_may_have_begun() {
    let expected = "TEX_REMOTE the TeX service refused (submit, 500): Internal Server Error: try again later, or tell \
                    its operator";
    let expected = format!("{expected}{RUNS_ON}");
    check(
        plain(500, "Internal Server Error"),
        vec![],
        None,
        &expected,
        UNKNOWN,
    )
    .await;
}

#[tokio::test]
async fn words_of_the_service_are_cut_and_escaped() {
    let answer = plain(400, &format!("\u{1b}[2Jé\n{}", "x".repeat(300)));
    let expected = format!(
        "TEX_REMOTE the TeX service refused (submit, 400): \\u{{1b}}[2Jé\\n{}…",
        "x".repeat(194)
    );
    check(answer, vec![], None, &expected, GONE).await;
}

#[tokio::test]
async fn answers_that_make_no_sense_are_told() {
    let cure = "check that its address is that of a tex2pdf service";
    for body in ["<html>", "[1]", "7", ""] {
        let what = "something that it never answers with";
        let expected =
            format!("TEX_REMOTE the TeX service answered with {what} (submit): {cure}{RUNS_ON}");
        check(plain(200, body), vec![], None, &expected, UNKNOWN).await;
    }
    for id in [r#""""#, r#""../x""#, "null", r#""a/b""#] {
        let expected =
            format!("TEX_REMOTE the TeX service answered with no job_id (submit): {cure}{RUNS_ON}");
        let answer = json(200, &format!(r#"{{"job_id":{id},"status":"processing"}}"#));
        check(answer, vec![], None, &expected, UNKNOWN).await;
    }
    let expected = format!(
        "TEX_REMOTE the TeX service answered with more than is taken (submit): {cure}{RUNS_ON}"
    );
    check(
        plain(200, &" ".repeat(70_000)),
        vec![],
        None,
        &expected,
        UNKNOWN,
    )
    .await;
}

#[tokio::test]
async fn failed_job_says_what_the_service_says() {
    let rows = [
        (
            "'main.tex' not found at root or in a single top-level subdirectory",
            "'main.tex' not found at root or in a single top-level subdirectory",
        ),
        (
            "Unexpected error: no such column: details",
            "Unexpected error: no such column: details (the service hides LaTeX's own errors behind this one: look for a \
             mistake in the document, compiling it locally)",
        ),
        (
            "Command timed out after 240 seconds",
            "Command timed out after 240 seconds",
        ),
        ("", "it does not say why"),
    ];
    for (text, expected) in rows {
        let failed = status(&format!(r#"{{"status":"failed","error":"{text}"}}"#));
        let running = status(r#"{"status":"processing"}"#);
        let expected = format!("TEX_REMOTE the TeX service made no PDF: {expected}");
        check(taken(), vec![running, failed], None, &expected, GONE).await;
    }
}

#[tokio::test]
async fn forgotten_job_is_a_failure() {
    let forgotten = json(404, r#"{"detail":"Job not found"}"#);
    let expected = "TEX_REMOTE the TeX service has forgotten the job: compile again";
    check(
        taken(),
        vec![status(r#"{"status":"queued"}"#), forgotten.clone()],
        None,
        expected,
        GONE,
    )
    .await;
    let done = vec![status(r#"{"status":"completed"}"#)];
    check(taken(), done, Some(forgotten), expected, GONE).await;
}

#[tokio::test]
async fn refused_status_requests_end_the_wait() {
    let rows = [
        (
            json(401, r#"{"detail":"Invalid API key"}"#),
            "401): Invalid API key: set its API key",
        ),
        (
            plain(500, "Internal Server Error"),
            "500): Internal Server Error: try again later, or tell its operator",
        ),
        (
            json(429, r#"{"detail":"slow down"}"#),
            "429): slow down: try again in a minute",
        ),
    ];
    for (answer, expected) in rows {
        let expected = format!("TEX_REMOTE the TeX service refused (status, {expected}{RUNS_ON}");
        check(taken(), vec![answer], None, &expected, UNKNOWN).await;
    }
}

#[tokio::test]
async fn refused_downloads_say_why() {
    let done = || vec![status(r#"{"status":"completed"}"#)];
    let early = json(
        400,
        r#"{"detail":"PDF not ready. Current status: processing"}"#,
    );
    let expected = "TEX_REMOTE the TeX service refused (download, 400): PDF not ready. Current status: processing";
    check(taken(), done(), Some(early), expected, GONE).await;
    let lost = json(500, r#"{"detail":"PDF file not found"}"#);
    let expected = "TEX_REMOTE the TeX service refused (download, 500): PDF file not found: try again later, or tell its \
                    operator";
    check(taken(), done(), Some(lost), expected, GONE).await;
    let expected = "TEX_REMOTE the TeX service answered with something that is no PDF (download): check that its address \
                    is that of a tex2pdf service";
    check(taken(), done(), Some(plain(200, "<html>")), expected, GONE).await;
}

#[tokio::test]
async fn unknown_status_is_waited_for_until_the_time_is_over() {
    let guard = Guard::yes();
    let odd = vec![status(r#"{"status":"compiling"}"#)];
    let service = Service::start(&guard.events, taken(), odd, None).await;
    let mut executor = remote(&service.server.uri());
    executor.timeout = Duration::from_millis(300);
    let result = compile_at(executor, document("x"), &guard).await;
    let expected = "TEX_TIMED_OUT TIMEOUT: no PDF within 300ms: simplify the document, or split it";
    assert_eq!(line(&result), format!("{expected}{RUNS_ON}"));
    assert_eq!(guard.events.all().last().unwrap(), UNKNOWN);
    assert!(result.elapsed >= Duration::from_millis(300));
    service.assert_expected();
}

#[tokio::test]
async fn too_large_a_pdf_is_not_taken() {
    let guard = Guard::yes();
    let service = Service::good(&guard.events).await;
    let mut executor = remote(&service.server.uri());
    executor.pdf_limit = PDF.len() as u64 - 1;
    let result = compile_at(executor, document("x"), &guard).await;
    assert!(
        line(&result).contains("answered with more than is taken (download)"),
        "{}",
        line(&result)
    );
}

/// A server that reads a request and then does this with the connection.
async fn server(answer: &'static [u8], hangs: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 1 << 16];
            let _ = stream.read(&mut request).await.unwrap();
            stream.write_all(answer).await.unwrap();
            if hangs {
                std::future::pending::<()>().await;
            }
        }
    });
    url
}

#[tokio::test]
async fn silent_cut_and_half_answers_are_failures() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"job";
    let silent = "the TeX service did not answer within 300ms (submit): try again later";
    let broke = "the connection to the TeX service broke (submit): try again later";
    let rows: [(&'static [u8], bool, &str); 4] = [
        (b"", true, silent),
        (half, true, silent),
        (b"", false, broke),
        (half, false, broke),
    ];
    for (answer, hangs, expected) in rows {
        let guard = Guard::yes();
        let mut executor = remote(&server(answer, hangs).await);
        executor.request_timeout = Duration::from_millis(300);
        let result = compile_at(executor, document("x"), &guard).await;
        assert!(result.elapsed < Duration::from_secs(10), "{result:?}");
        let line = line(&result);
        assert!(
            line.starts_with(&format!("TEX_REMOTE {expected}{RUNS_ON}")),
            "{line}"
        );
        assert!(!line.contains("127.0.0.1"), "{line}");
        assert_eq!(guard.events.all().last().unwrap(), UNKNOWN);
    }
}

#[tokio::test]
async fn service_that_is_not_there_took_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let guard = Guard::yes();
    let result = compile_at(remote(&url), document("x"), &guard).await;
    let line = line(&result);
    assert!(
        line.starts_with(
            "TEX_REMOTE the TeX service cannot be reached: check its address, or try again later: "
        ),
        "{line}"
    );
    assert_eq!(guard.events.all().last().unwrap(), GONE);
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_without_a_lease() {
    for url in [
        "localhost:8000",
        "ftp://x",
        "http://x/?a",
        "http://x/#a",
        "http://SECRET@x/",
        "http://:SECRET@x/",
        "file:///etc",
    ] {
        let guard = Guard::yes();
        let executor = remote(url);
        assert!(!format!("{executor:?}").contains("SECRET"));
        let result = compile_at(executor, document("x"), &guard).await;
        let expected = "TEX_REMOTE the TeX service cannot be asked: its address is no http:// or https:// URL without user, \
                        query and fragment; correct it";
        assert_eq!(line(&result), expected);
        assert!(guard.events.all().is_empty());
    }
    let guard = Guard::yes();
    let mut job = document("x");
    job.engine = Engine::Xelatex;
    let result = compile_at(remote("http://localhost:1"), job, &guard).await;
    let expected = "TEX_ENGINE_REFUSED xelatex is not allowed here: the remote service has pdflatex only; choose that, or \
                    compile locally";
    assert_eq!(line(&result), expected);
    assert!(guard.events.all().is_empty());
}

#[tokio::test]
async fn key_that_cannot_be_had_or_sent_is_not_shown() {
    let missing: ApiKeySource =
        Arc::new(|| Box::pin(async { Err("the file is not there".into()) }));
    let rows = [
        (
            missing,
            "TEX_REMOTE the API key of the TeX service could not be read: tell its operator: the file is not there",
        ),
        (
            key("SECRET\nkey"),
            "TEX_REMOTE the TeX service cannot be asked: its API key has characters that no header can hold; correct it",
        ),
    ];
    for (key, expected) in rows {
        let guard = Guard::yes();
        let service = Service::start(&guard.events, taken(), vec![], None).await;
        let mut executor = remote(&service.server.uri());
        executor.api_key = Some(key);
        let compiler = TexCompiler::new(Executor::Remote(executor));
        assert!(!format!("{compiler:?}").contains("SECRET"));
        let result = compiler.compile(document("x"), guard.clone(), |_| {}).await;
        assert_eq!(line(&result), expected);
        assert_eq!(guard.events.all(), ["opening", GONE]);
    }
}
