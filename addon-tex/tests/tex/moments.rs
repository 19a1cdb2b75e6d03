//! What a guard is told, and when.

use std::sync::{Arc, Mutex};

use addon_tex::{Executor, MainFile, Progress, TexCompiler};

use crate::bench::{Local, compile_at, document, has_tex, job, line, remote};
use crate::guard::{Answer, Guard};
use crate::service::{JOB, Service, pdf, status, taken};

const UNKNOWN: &str = r#"closed Unknown("the remote job runs on until it ends by itself")"#;

#[tokio::test]
async fn guard_is_asked_before_the_upload_and_before_each_look() {
    let guard = Guard::yes();
    let service = Service::good(&guard.events).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let compiler = TexCompiler::new(Executor::Remote(remote(&service.server.uri())));
    let progress = {
        let seen = seen.clone();
        move |it| seen.lock().unwrap().push(it)
    };
    let result = compiler
        .compile(document("x"), guard.clone(), progress)
        .await;
    assert!(result.is_success(), "{:?}", result.error);
    let opened = format!("opened {JOB}");
    let expected = [
        "opening",
        "submit",
        &opened,
        "used",
        "status",
        "used",
        "status",
        "used",
        "status",
        "download",
        "closed Gone",
    ];
    assert_eq!(guard.events.all(), expected);
    let running = Progress::Running("Running pdflatex".into());
    let expected = [
        Progress::Waiting,
        Progress::Started { job_id: JOB.into() },
        running.clone(),
        running,
        Progress::Downloading,
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn bad_input_needs_no_guard() {
    let local = Local::new();
    let mut bad = document("x");
    bad.main = MainFile::new("other.tex").unwrap();
    let expected = "TEX_SOURCES_INVALID the main file other.tex is not among the 1 files of the document: name another";
    for executor in [
        Executor::Local(local.executor.clone()),
        Executor::Remote(remote("http://localhost:1")),
    ] {
        let guard = Guard::yes();
        let result = TexCompiler::new(executor)
            .compile(bad.clone(), guard.clone(), |_| {})
            .await;
        assert_eq!(line(&result), expected);
        assert!(guard.events.all().is_empty());
    }
}

#[tokio::test]
async fn nothing_is_uploaded_or_unpacked_when_the_guard_refuses() {
    let refusing = || {
        let mut guard = Guard::new();
        guard.opening = Answer::Unavailable;
        Arc::new(guard)
    };
    let expected = "TEX_UNAVAILABLE no session can be used now: the store is away";
    let guard = refusing();
    let service = Service::good(&guard.events).await;
    let result = compile_at(remote(&service.server.uri()), document("x"), &guard).await;
    assert_eq!(line(&result), expected);
    assert_eq!(guard.events.all(), ["opening"]);

    if has_tex() {
        let guard = refusing();
        let result = Local::new().compile(document("x"), &guard).await;
        assert_eq!(line(&result), expected);
        assert_eq!(guard.events.all(), ["opening"]);
    }
}

#[tokio::test]
async fn job_whose_payload_is_not_kept_is_given_up() {
    for (answer, code) in [
        (Answer::Unavailable, "TEX_UNAVAILABLE"),
        (Answer::Lost, "TEX_REVOKED"),
    ] {
        let mut guard = Guard::new();
        guard.opened = answer;
        let guard = Arc::new(guard);
        let service = Service::good(&guard.events).await;
        let result = compile_at(remote(&service.server.uri()), document("x"), &guard).await;
        assert_eq!(result.error.unwrap().code(), code);
        assert_eq!(
            guard.events.all(),
            ["opening", "submit", &format!("opened {JOB}"), UNKNOWN]
        );
    }
}

#[tokio::test]
async fn check_that_fails_ends_the_wait_at_once() {
    let rows = [
        (
            Answer::Lost,
            "TEX_REVOKED session revoked: idle: the compilation was ended; the remote job runs on until it ends by itself",
        ),
        (
            Answer::Unavailable,
            "TEX_UNAVAILABLE no session can be used now: the store is away",
        ),
        (
            Answer::Panic,
            "TEX_INTERNAL the compilation failed through a bug here: report it with the time of day",
        ),
    ];
    for (answer, expected) in rows {
        let guard = Guard::with_uses(&[Answer::Yes, answer]);
        let service = Service::good(&guard.events).await;
        let result = compile_at(remote(&service.server.uri()), document("x"), &guard).await;
        assert_eq!(line(&result), expected);
        let opened = format!("opened {JOB}");
        assert_eq!(
            guard.events.all(),
            [
                "opening", "submit", &opened, "used", "status", "used", UNKNOWN
            ]
        );
    }
}

#[tokio::test]
async fn revocation_ends_the_wait_for_the_service_at_once() {
    let guard = Guard::yes();
    // It would be waited for 30 s.
    let slow = status(r#"{"status":"processing"}"#).set_delay(std::time::Duration::from_secs(60));
    let service = Service::start(&guard.events, taken(), vec![slow], Some(pdf())).await;
    let revoke = async {
        guard.events.wait("status").await;
        guard.revoke.send_replace(true);
    };
    let (result, ()) = tokio::join!(
        compile_at(remote(&service.server.uri()), document("x"), &guard),
        revoke
    );
    let expected = "TEX_REVOKED session revoked: by an operator: the compilation was ended; the remote job runs on until \
                    it ends by itself";
    assert_eq!(line(&result), expected);
    assert_eq!(guard.events.all().last().unwrap(), UNKNOWN);
    assert!(result.elapsed.as_secs() < 20, "{:?}", result.elapsed);
}

#[tokio::test]
async fn panic_of_a_listener_is_a_result_and_the_guard_is_told() {
    let guard = Guard::yes();
    let service = Service::good(&guard.events).await;
    let compiler = TexCompiler::new(Executor::Remote(remote(&service.server.uri())));
    let result = compiler
        .compile(document("x"), guard.clone(), |it| {
            assert_eq!(it, Progress::Waiting)
        })
        .await;
    assert_eq!(result.error.unwrap().code(), "TEX_INTERNAL");
    assert_eq!(guard.events.all().last().unwrap(), UNKNOWN);
}

#[tokio::test]
async fn local_compilation_tells_the_same_moments() {
    if !has_tex() {
        return;
    }
    let local = Local::new();
    let guard = Guard::yes();
    let result = local.compile(document("Hello"), &guard).await;
    assert!(result.is_success(), "{:?}\n{}", result.error, result.log);
    let events = guard.events.all();
    assert_eq!(events[0], "opening");
    assert!(events[1].starts_with("opened lease-tex-"), "{events:?}");
    let (last, uses) = events[2..].split_last().unwrap();
    assert!(
        !uses.is_empty() && uses.iter().all(|it| it == "used"),
        "{events:?}"
    );
    assert_eq!(last, "closed Gone");

    // Where the answer to a use is lost, it ends.
    let guard = Guard::with_uses(&[Answer::Lost]);
    let result = local
        .compile(job(&[("a.tex", b"\\loop\\iftrue\\repeat")]), &guard)
        .await;
    assert_eq!(
        line(&result),
        "TEX_REVOKED session revoked: idle: the compilation was ended"
    );
    assert_eq!(guard.events.all()[2..], ["used", "closed Gone"]);
}
