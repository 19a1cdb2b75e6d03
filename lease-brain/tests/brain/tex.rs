//! TeX documents through a brain: at a service that does as it is told, and at the latexmk of this machine.

mod caps;
mod latexmk;
mod revoked;
mod service;

use std::time::Duration;

use addon_tex::{Limits, Sources};
use lease_brain::api::{INTERNAL_TOKEN, TexLine, TexOutcome, TexProgress};
use lease_shared::definition::DocumentAddress;
use mongodb::bson::doc;
use reqwest::Method;
use test_mongo::eventually;

use crate::asking::{Reply, plain};
use crate::fleet::{Fleet, Pod, SECRET, SOON};
use service::Service;

/// Whose document it is, and which.
#[derive(Clone, Copy)]
struct Whose {
    tenant: &'static str,
    project: &'static str,
    user: &'static str,
}

const ADA: Whose = Whose {
    tenant: "acme",
    project: "thesis",
    user: "ada",
};

/// What came of it.
#[derive(Debug)]
struct Compiled {
    told: Vec<TexProgress>,
    outcome: TexOutcome,
    pdf: Vec<u8>,
}

impl Compiled {
    #[track_caller]
    fn failed(&self, code: &str, words: &str) {
        let problem = self.outcome.problem.as_ref().expect("it failed");
        assert_eq!(problem.code, code, "{self:?}");
        assert!(problem.message.contains(words), "{self:?}");
        assert!(!self.outcome.success && self.pdf.is_empty(), "{self:?}");
    }
}

impl Fleet {
    async fn settings(&self, tenant: &str, project: &str, text: &str) {
        let address = DocumentAddress::new(tenant, project, "_vance/config/settings.yaml").unwrap();
        let documents = self.leases.definitions();
        documents.put(&address, text).await.unwrap();
    }

    /// A service that everybody's documents go to.
    async fn tex_service(&self) -> Service {
        let service = Service::start().await;
        let text = format!(
            "tex.executor: rbehzadan\ntex.rbehzadan.url: {}\ntex.rbehzadan.pollIntervalSeconds: 1\n",
            service.url()
        );
        self.settings("_vance", "_tenant", &text).await;
        service
    }

    async fn nothing_compiles(&self) {
        eventually("no compilation is left, and no slot", SOON, async || {
            let tex = doc! { "type": "tex" };
            let held = self.holders().count_documents(tex).await?;
            Ok(held == 0 && self.booked().await == 0)
        })
        .await
        .unwrap();
    }
}

/// A zip file of these files.
fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let file = folder.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let sources = Sources::from_directory(folder.path(), Limits::default()).unwrap();
    sources.to_zip().unwrap()
}

fn document(body: &str) -> String {
    format!("\\documentclass{{article}}\n\\begin{{document}}\n{body}\n\\end{{document}}\n")
}

fn request(pod: &Pod, whose: Whose, main: &str, zip: Vec<u8>) -> reqwest::RequestBuilder {
    let path = format!(
        "/internal/tex/compile?tenant={}&project={}&user={}&main={main}",
        whose.tenant, whose.project, whose.user
    );
    plain(pod, Method::POST, &path)
        .header(INTERNAL_TOKEN, SECRET)
        .timeout(Duration::from_secs(120))
        .body(zip)
}

async fn compile(pod: &Pod, whose: Whose, main: &str, zip: Vec<u8>) -> Compiled {
    let answer = request(pod, whose, main, zip).send().await.unwrap();
    let status = answer.status();
    let bytes = answer.bytes().await.unwrap();
    assert!(
        status.is_success(),
        "{status}: {}",
        String::from_utf8_lossy(&bytes)
    );
    let (mut told, mut rest) = (Vec::new(), &bytes[..]);
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n').expect("a line");
        let (line, after) = rest.split_at(end);
        rest = &after[1..];
        match serde_json::from_slice(line).unwrap() {
            TexLine::Progress(progress) => told.push(progress),
            TexLine::Result(outcome) => {
                assert_eq!(outcome.pdf_bytes, rest.len() as u64);
                let pdf = rest.to_vec();
                return Compiled { told, outcome, pdf };
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_document_is_refused_before_anything_is_acquired() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    let pod = fleet.pod("a").await;
    let good = || zip(&[("main.tex", &document("hi"))]);
    let send =
        async |request: reqwest::RequestBuilder| Reply::of(request.send().await.unwrap()).await;
    let nobody = Whose { user: "", ..ADA };
    let system = Whose {
        tenant: "_vance",
        ..ADA
    };
    for (request, status, words) in [
        (request(&pod, nobody, "main.tex", good()), 400, "user"),
        (request(&pod, system, "main.tex", good()), 400, "tenant"),
        (request(&pod, ADA, "../main.tex", good()), 400, "main.tex"),
        (request(&pod, ADA, "-main.tex", good()), 400, "main.tex"),
        (
            request(&pod, ADA, "main.tex&engine=tex", good()),
            400,
            "pdflatex",
        ),
        (request(&pod, ADA, "main.tex&extra=1", good()), 400, "extra"),
        (
            request(&pod, ADA, "main.tex", b"no zip".to_vec()),
            400,
            "zip",
        ),
        (
            request(&pod, ADA, "main.tex", vec![0; 21 * 1024 * 1024]),
            413,
            "limit",
        ),
    ] {
        let reply = send(request).await;
        assert_eq!(
            reply.refusal(),
            (status, "BAD_REQUEST".to_owned()),
            "{reply:?}"
        );
        assert!(reply.text.contains(words), "{words}: {reply:?}");
    }
    let path = "/internal/tex/compile?tenant=acme&project=thesis&user=ada&main=main.tex";
    let reply = send(plain(&pod, Method::POST, path).body(good())).await;
    assert_eq!(reply.refusal(), (403, "FORBIDDEN".to_owned()));
    assert_eq!(service.submitted(), 0);
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_be_read_compile_nothing() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    let pod = fleet.pod("a").await;
    fleet.settings("acme", "thesis", "tex.lese: none").await;
    let compiled = compile(&pod, ADA, "main.tex", zip(&[("main.tex", "x")])).await;
    compiled.failed(
        "LEASE_INVALID",
        "project document acme/thesis/_vance/config/settings.yaml:1: tex.lese",
    );
    fleet
        .settings("acme", "thesis", "tex.executor: local")
        .await;
    let compiled = compile(&pod, ADA, "main.tex", zip(&[("main.tex", "x")])).await;
    compiled.failed(
        "LEASE_INVALID",
        "belongs to the system's or the tenant's layer",
    );
    fleet.settings("acme", "thesis", "tex.lease: no-such").await;
    let compiled = compile(&pod, ADA, "main.tex", zip(&[("main.tex", "x")])).await;
    compiled.failed("LEASE_UNDEFINED", "no-such");
    assert_eq!(service.submitted(), 0);
}
