//! A double of the tex2pdf service: says what it is told to, and writes down what it is asked.

use std::collections::VecDeque;
use std::sync::Mutex;

use wiremock::matchers::{any, method, path, path_regex};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use crate::guard::Events;

pub(crate) const PDF: &[u8] = b"%PDF-1.5 a double's";
pub(crate) const JOB: &str = "5f2c8a9e-77b1-4c1b-9f0e-2b7d7a1c0001";

pub(crate) struct Service {
    pub(crate) server: MockServer,
    pub(crate) events: Events,
}

/// The first answers in turn, and the last for ever.
struct Turns {
    name: &'static str,
    answers: Mutex<VecDeque<ResponseTemplate>>,
    events: Events,
}

impl Respond for Turns {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        self.events.add(self.name);
        let mut answers = self.answers.lock().unwrap();
        let next = answers.front().unwrap().clone();
        if answers.len() > 1 {
            answers.pop_front();
        }
        next
    }
}

impl Service {
    /// One that answers to a submission, to each status request and to the download. Without an answer, it must not be
    /// asked.
    pub(crate) async fn start(
        events: &Events,
        submit: ResponseTemplate,
        statuses: Vec<ResponseTemplate>,
        download: Option<ResponseTemplate>,
    ) -> Self {
        let server = MockServer::start().await;
        let events = events.clone();
        let turns = |name, answers: Vec<ResponseTemplate>| Turns {
            name,
            answers: Mutex::new(answers.into()),
            events: events.clone(),
        };
        let mock = Mock::given(method("POST")).and(path("/tex2pdf"));
        server
            .register(mock.respond_with(turns("submit", vec![submit])))
            .await;
        if !statuses.is_empty() {
            let mock =
                Mock::given(method("GET")).and(path_regex(format!("^/tex2pdf/status/{JOB}$")));
            server
                .register(mock.respond_with(turns("status", statuses)))
                .await;
        }
        if let Some(download) = download {
            let mock = Mock::given(method("GET")).and(path(format!("/tex2pdf/download/{JOB}")));
            server
                .register(mock.respond_with(turns("download", vec![download])))
                .await;
        }
        let unexpected = turns("unexpected", vec![ResponseTemplate::new(500)]);
        server
            .register(
                Mock::given(any())
                    .respond_with(unexpected)
                    .with_priority(255),
            )
            .await;
        Self { server, events }
    }

    /// One that makes a PDF, at the third look.
    pub(crate) async fn good(events: &Events) -> Self {
        let running =
            status(r#"{"status":"processing","created_at":1.5,"progress":"Running pdflatex"}"#);
        let statuses = vec![
            running.clone(),
            running,
            status(r#"{"status":"completed","created_at":1.5}"#),
        ];
        Self::start(events, taken(), statuses, Some(pdf())).await
    }

    pub(crate) fn assert_expected(&self) {
        assert!(
            !self.events.all().iter().any(|it| it == "unexpected"),
            "{:?}",
            self.events.all()
        );
    }
}

pub(crate) fn taken() -> ResponseTemplate {
    json(
        200,
        &format!(
            r#"{{"job_id":"{JOB}","status":"processing","message":"Conversion job started"}}"#
        ),
    )
}

pub(crate) fn status(text: &str) -> ResponseTemplate {
    json(
        200,
        &text.replacen('{', &format!(r#"{{"job_id":"{JOB}","#), 1),
    )
}

pub(crate) fn pdf() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(PDF, "application/pdf")
}

pub(crate) fn json(status: u16, text: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_raw(text, "application/json")
}

pub(crate) fn plain(status: u16, text: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_raw(text, "text/plain")
}
