//! What is counted, and under which labels.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_shared::definition::{DocumentAddress, InlineDefinition};
use lease_shared::{Decision, LeaseRef, LeaseRequest, LeaseService, Tenancy, metrics as names};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use mongodb::bson::doc;
use test_mongo::FailCommand;

use crate::stage::{Stage, VICTIM};
use crate::support::{client, lease_type, pod_id, request, request_by, service};

/// What was counted while `work` ran, as Prometheus would write it: `name{label="value"}`. Of a histogram, how many values.
async fn counted(work: impl AsyncFnOnce() + Send + 'static) -> BTreeMap<String, u64> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // One thread for all of it, so that the recorder is the local one throughout.
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        metrics::with_local_recorder(&recorder, || runtime.block_on(work()));
    })
    .await
    .unwrap();
    let snapshot = snapshotter.snapshot().into_vec().into_iter();
    snapshot
        .map(|(key, _, _, value)| {
            let key = key.key();
            let labels: Vec<String> = key
                .labels()
                .map(|label| format!("{}={}", label.key(), label.value()))
                .collect();
            let value = match value {
                DebugValue::Counter(count) => count,
                DebugValue::Histogram(values) => {
                    let seconds = values.iter().map(|seconds| seconds.into_inner());
                    // Each whole hour counts as a thousand values.
                    let hours = seconds.map(|seconds| (seconds / 3600.0) as u64);
                    values.len() as u64 + 1000 * hours.sum::<u64>()
                }
                DebugValue::Gauge(gauge) => panic!("{key:?} {gauge}"),
            };
            (format!("{} {}", key.name(), labels.join(" ")), value)
        })
        .collect()
}

fn series<const N: usize>(expected: [(&str, String, u64); N]) -> BTreeMap<String, u64> {
    let series = expected.into_iter();
    series
        .map(|(name, labels, value)| (format!("{name} {labels}"), value))
        .collect()
}

/// A service of this process's own, on the runtime that it is called on.
async fn victim(stage: &Stage) -> LeaseService {
    let client = client(&stage.world.mongo, |options| {
        options.app_name = Some(VICTIM.to_owned());
    });
    let database = client.await.database(stage.world.mongo.name());
    service(&database).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn every_outcome_of_acquire_check_and_release_is_counted_once_with_its_times() {
    let stage = Stage::new(1).await;
    let counted = counted(async move || {
        let leases = victim(&stage).await;
        let lease = leases.acquire(request("pdf", "ada")).await.unwrap();
        leases.acquire(request("pdf", "bob")).await.unwrap_err();
        lease.check().await.unwrap();
        let denied = FailCommand::on(&["update", "findAndModify"]).error_code(13);
        let denied = stage.fail(denied).await;
        leases.acquire(request("pdf", "bob")).await.unwrap_err();
        lease.check().await.unwrap_err();
        lease.release().await.unwrap_err();
        denied.off().await.unwrap();
        lease.release().await.unwrap();
        lease.release().await.unwrap();
        lease.check().await.unwrap_err();
        leases.close().await;
    })
    .await;
    let of = |outcome| format!("resource=pdf outcome={outcome}");
    let expected = [
        (names::ACQUIRE, of("success"), 1),
        (names::ACQUIRE, of("busy"), 1),
        (names::ACQUIRE, of("unavailable"), 1),
        (names::ACQUIRE_WAIT, "resource=pdf".to_owned(), 3),
        (names::CHECK, of("ok"), 1),
        (names::CHECK, of("unavailable"), 1),
        (names::CHECK, of("lost"), 1),
        (names::RELEASE, of("error"), 1),
        (names::RELEASE, of("ok"), 1),
        (names::RELEASE, of("already-released"), 1),
        (names::HOLD, "resource=pdf".to_owned(), 1),
        (names::RELEASE_TO_FREE, "resource=pdf".to_owned(), 1),
    ];
    assert_eq!(counted, series(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_that_did_not_come_back_is_not_counted_as_free() {
    let stage = Stage::new(1).await;
    let counted = counted(async move || {
        let leases = victim(&stage).await;
        let lease = leases.acquire(request("pdf", "ada")).await.unwrap();
        let denied = FailCommand::on(&["update"]).error_code(13);
        let _denied = stage.fail(denied).await;
        lease.release().await.unwrap();
        leases.close().await;
    })
    .await;
    let release = format!("{} resource=pdf outcome=ok", names::RELEASE);
    assert_eq!(counted.get(&release), Some(&1));
    let free = format!("{} resource=pdf", names::RELEASE_TO_FREE);
    assert_eq!(counted.get(&free), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_of_losing_a_lease_is_counted_and_the_time_until_its_clean_up_ends() {
    let stage = Stage::new(9).await;
    let counted = counted(async move || {
        let leases = victim(&stage).await;
        let mut tokens = Vec::new();
        for who in ["idle", "pod", "decided", "forced"] {
            let lease = leases.acquire(request_by("hard", Some("a"), who)).await;
            tokens.push(lease.unwrap().into_token().unwrap());
        }
        let [idle, _, decided, forced] = tokens.as_slice() else {
            unreachable!()
        };
        stage.world.age(idle, Duration::from_secs(700)).await;
        assert_eq!(leases.sweep().await.idle, 1);
        leases.revoke(decided, &Decision::default()).await.unwrap();
        leases
            .force_revoke(forced, &Decision::default())
            .await
            .unwrap();
        for holding in leases.held_by(&pod_id("a"), 9).await.unwrap() {
            assert!(leases.revoke_of_dead_pod(&holding).await.unwrap());
        }
        let hours_ago = doc! { "$subtract": ["$$NOW", 2 * 3_600_000] };
        let hours_ago = doc! { "$set": { "revocation.at": hours_ago } };
        stage.world.set(decided, hours_ago).await;
        let cleanup = leases.cleanups().claim(decided, &pod_id("a")).await;
        cleanup.unwrap().unwrap().finish().await.unwrap();
    })
    .await;
    for (reason, count) in [("idle", 1), ("pod", 1), ("revoke", 2)] {
        let reaped = format!("{} reason={reason}", names::REAP);
        assert_eq!(counted.get(&reaped), Some(&count), "{counted:?}");
    }
    let cleaned_up = format!("{} type=hard", names::CLEANUP);
    assert_eq!(
        counted.get(&cleaned_up),
        Some(&2001),
        "two hours: {counted:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_that_a_tenant_or_a_project_chose_is_a_label() {
    let stage = Stage::new(9).await;
    let system = "name: shared\nresource: press\nlevels: { user: 1 }\n";
    let renamed = "name: shared\nresource: of-acme\n";
    let own = "name: of-ada\nresource: secret-plan\nlevels: { user: 1 }\n";
    for (tenant, project, name, text) in [
        ("_vance", "_tenant", "shared", system),
        ("acme", "_tenant", "shared", renamed),
        ("acme", "_tenant", "of-ada", own),
        (
            "acme",
            "thesis",
            "of-bob",
            "name: of-bob\nlevels: { user: 1 }\n",
        ),
        ("acme", "thesis", "broken", "name: [\n"),
    ] {
        let address = DocumentAddress::lease(tenant, project, &name.parse().unwrap()).unwrap();
        let documents = stage.world.leases.definitions();
        documents.put(&address, text).await.unwrap();
    }
    let counted = counted(async move || {
        let leases = victim(&stage).await;
        for name in ["shared", "of-ada", "of-bob"] {
            leases.acquire(request(name, "ada")).await.unwrap();
        }
        for name in ["broken", "no-such"] {
            leases.acquire(request(name, "ada")).await.unwrap_err();
        }
        let inline = "{\"name\": \"of-eve\", \"levels\": {\"user\": 1}}";
        let inline: InlineDefinition = serde_json::from_str(inline).unwrap();
        let request = LeaseRequest::builder()
            .lease_type(lease_type("soft"))
            .lease(LeaseRef::inline(inline))
            .tenancy(Tenancy::new("acme", "thesis", "ada").unwrap())
            .build();
        leases.acquire(request).await.unwrap();
        leases.close().await;
    })
    .await;
    let acquired = counted
        .into_iter()
        .filter(|(series, _)| series.starts_with(&format!("{} ", names::ACQUIRE)));
    let of = |resource, outcome| format!("resource={resource} outcome={outcome}");
    let expected = [
        (names::ACQUIRE, of("press", "success"), 1),
        (names::ACQUIRE, of("private", "success"), 2),
        (names::ACQUIRE, of("mcp-inline", "success"), 1),
        (names::ACQUIRE, of("unknown", "unavailable"), 1),
    ];
    assert_eq!(acquired.collect::<BTreeMap<_, _>>(), series(expected));
}
