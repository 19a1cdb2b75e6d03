//! What a user sees, and what becomes of the slot, when a compilation does not come to its own end.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use lease_shared::LeaseToken;
use mongodb::bson::doc;
use test_mongo::{Mongod, TestMongo};

use super::{ADA, compile, request, zip};
use crate::fleet::{Fleet, PodOptions};

async fn token(fleet: &Fleet) -> LeaseToken {
    let holder = fleet
        .holders()
        .find_one(doc! { "type": "tex" })
        .await
        .unwrap();
    LeaseToken::new(holder.expect("it holds a lease").get_str("_id").unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_compilation_ends_at_once_and_says_that_the_remote_job_runs_on() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    let (pod, other) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    let compiling = compile(&pod, ADA, "a.tex", zip(&[("a.tex", "x")]));
    let revoking = async {
        service
            .until("it runs", |service| service.running() == 1)
            .await;
        let token = token(&fleet).await;
        other.revoke(&token).await;
        fleet.gone(&token).await;
    };
    let (compiled, ()) = tokio::join!(compiling, revoking);
    compiled.failed("LEASE_LOST", "an operator revoked it");
    compiled.failed("LEASE_LOST", "runs on");
    assert!(
        pod.log().contains("a revoked compilation may run on"),
        "{}",
        pod.log()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn payload_names_the_job_right_after_its_submission() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    let pod = fleet.pod("a").await;
    let compiling = compile(&pod, ADA, "a.tex", zip(&[("a.tex", "x")]));
    let looking = async {
        service
            .until("it runs", |service| service.running() == 1)
            .await;
        let token = token(&fleet).await;
        test_mongo::eventually("it is named", crate::fleet::SOON, async || {
            let holder = fleet.holder(&token).await.expect("it is held");
            let payload = holder.get_document("payload").unwrap().clone();
            assert_eq!(payload.get_str("executor").unwrap(), "rbehzadan");
            Ok(payload.get_str("jobId").ok() == Some("job-0"))
        })
        .await
        .unwrap();
        let holder = fleet.holder(&token).await.unwrap();
        assert!(holder.get_bool("podBound").unwrap());
        assert_eq!(holder.get_str("userId").unwrap(), "ada");
        service.end_one("failed");
    };
    let (compiled, ()) = tokio::join!(compiling, looking);
    compiled.failed("TEX_REMOTE", "it was told to");
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_job_is_a_failed_result() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    let pod = fleet.pod("a").await;
    let compiling = compile(&pod, ADA, "a.tex", zip(&[("a.tex", "x")]));
    let forgetting = async {
        service
            .until("it runs", |service| service.running() == 1)
            .await;
        service.forget();
    };
    let (compiled, ()) = tokio::join!(compiling, forgetting);
    compiled.failed("TEX_REMOTE", "has forgotten the job");
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_that_is_down_is_a_result_and_the_slot_is_back() {
    let fleet = Fleet::new().await;
    drop(fleet.tex_service().await);
    let pod = fleet.pod("a").await;
    let compiled = compile(&pod, ADA, "a.tex", zip(&[("a.tex", "x")])).await;
    compiled.failed("TEX_REMOTE", "cannot be reached");
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_that_goes_ends_its_compilation() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    let pod = fleet.pod("a").await;
    let caller = tokio::spawn(request(&pod, ADA, "a.tex", zip(&[("a.tex", "x")])).send());
    service
        .until("it runs", |service| service.running() == 1)
        .await;
    caller.abort();
    drop(caller.await);
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_of_a_killed_pod_comes_back() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    let (mut pod, other) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    crate::sweep::in_touch(&fleet, &other).await;
    let caller = tokio::spawn(request(&pod, ADA, "a.tex", zip(&[("a.tex", "x")])).send());
    service
        .until("it runs", |service| service.running() == 1)
        .await;
    let left = token(&fleet).await;
    pod.kill();
    drop(caller.await);
    fleet.gone(&left).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn store_that_stops_ends_the_compilation_with_a_result() {
    let server = Mongod::start().await.unwrap();
    let fleet = Fleet::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let service = fleet.tex_service().await;
    let pod = Arc::new(
        fleet
            .pod_with("a", PodOptions::with(&["--stale=120s"]))
            .await,
    );
    let compiling = tokio::spawn({
        let pod = Arc::clone(&pod);
        async move { compile(&pod, ADA, "a.tex", zip(&[("a.tex", "x")])).await }
    });
    service
        .until("it runs", |service| service.running() == 1)
        .await;
    server.pause().unwrap();
    let compiled = compiling.await.unwrap();
    server.resume().unwrap();
    compiled.failed("LEASE_UNAVAILABLE", "");
    assert!(Duration::from_millis(compiled.outcome.elapsed_ms) < Duration::from_secs(30));
    // The store is back: what could not be given back is, when it has expired.
    fleet.age(Duration::from_secs(3600)).await;
    fleet.nothing_compiles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_is_the_layers_own_and_shown_nowhere() {
    let fleet = Fleet::new().await;
    let service = fleet.tex_service().await;
    let secrets = tempfile::tempdir().unwrap();
    fs::create_dir_all(secrets.path().join("acme/_tenant")).unwrap();
    fs::write(secrets.path().join("acme/_tenant/KEY"), "hunter2-of-acme").unwrap();
    let group = format!(
        "tex.executor: rbehzadan\ntex.rbehzadan.url: {}\ntex.rbehzadan.pollIntervalSeconds: 1\n\
         tex.rbehzadan.apiKey: '{{{{secret:KEY}}}}'\n",
        service.url()
    );
    fleet.settings("acme", "_tenant", &group).await;
    fleet.settings("umbrella", "_tenant", &group).await;
    let dir = format!("--secrets-dir={}", secrets.path().display());
    let pod = fleet.pod_with("a", PodOptions::with(&[&dir])).await;
    let ending = async {
        service
            .until("it runs", |service| service.running() == 1)
            .await;
        service.end_one("completed");
    };
    let (compiled, ()) = tokio::join!(compile(&pod, ADA, "a.tex", zip(&[("a.tex", "x")])), ending);
    assert!(compiled.outcome.success, "{compiled:?}");
    let shown = service.keys();
    assert!(shown.len() >= 3);
    assert!(
        shown
            .iter()
            .all(|key| key.as_deref() == Some("hunter2-of-acme")),
        "{shown:?}"
    );
    let other = super::Whose {
        tenant: "umbrella",
        ..ADA
    };
    let refused = compile(&pod, other, "a.tex", zip(&[("a.tex", "x")])).await;
    refused.failed("TEX_REMOTE", "tenant document umbrella/_tenant");
    assert_eq!(service.keys().len(), shown.len(), "nothing was sent");
    assert!(!pod.log().contains("hunter2"), "{}", pod.log());
    fleet.nothing_compiles().await;
}
