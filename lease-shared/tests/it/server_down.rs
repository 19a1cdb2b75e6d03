//! The server stops, dies, hangs or was never there: nobody waits longer than promised, and nothing is lost with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_shared::{
    AcquireError, CheckError, Lease, LeaseRef, LeaseRequest, LeaseService, Release, Tenancy,
    connect,
};
use test_mongo::Mongod;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::stage::{
    ACQUIRE_LIMIT, Stage, USE_LIMIT, assert_all_comes_free, assert_truly_held, chain,
};
use crate::support::{lease_type, request, request_of, token};

const CAP: usize = 2;

#[derive(Debug, Clone, Copy)]
enum Trouble {
    Stopped,
    Killed,
    Paused,
}

impl Trouble {
    async fn begin(self, server: &mut Mongod) {
        match self {
            Self::Stopped => server.stop().await.unwrap(),
            Self::Killed => server.kill().unwrap(),
            Self::Paused => server.pause().unwrap(),
        }
    }

    async fn end(self, server: &mut Mongod) {
        match self {
            Self::Stopped | Self::Killed => server.restart().await.unwrap(),
            Self::Paused => server.resume().unwrap(),
        }
    }
}

/// An acquire that stands in line by the time this returns.
async fn waiter(leases: &LeaseService, who: &str) -> JoinHandle<Result<Lease, AcquireError>> {
    let in_line = Arc::new(Notify::new());
    let told = Arc::clone(&in_line);
    let request = LeaseRequest::builder()
        .lease_type(lease_type("soft"))
        .lease(LeaseRef::named("pdf").unwrap())
        .tenancy(Tenancy::new("acme", "thesis", who).unwrap())
        .wait(Duration::from_secs(120))
        .on_busy(Arc::new(move |_| told.notify_one()))
        .build();
    let leases = leases.clone();
    let waiter = tokio::spawn(async move { leases.acquire(request).await });
    in_line.notified().await;
    waiter
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    (work.await, started.elapsed())
}

/// Everything that a consumer can do while no server answers, all at the same time.
async fn assert_answered_in_time(leases: &LeaseService, held: &Lease) {
    let stranger = Tenancy::new("umbrella", "x", "y").unwrap();
    let (known, unknown, checked, released) = tokio::join!(
        timed(leases.acquire(request("pdf", "eve"))),
        timed(leases.acquire(request_of("pdf", &stranger, Duration::ZERO))),
        timed(held.check()),
        timed(held.release()),
    );
    for (result, took) in [known, unknown] {
        let error = result.expect_err("no server, no lease");
        assert_eq!(error.code(), "LEASE_UNAVAILABLE");
        assert!(took < ACQUIRE_LIMIT, "{took:?}: {}", chain(&error));
    }
    let (result, took) = checked;
    assert!(took < USE_LIMIT, "check: {took:?}");
    match result {
        Err(error @ CheckError::Unavailable(_)) => {
            let text = chain(&error);
            let start = "the lease could not be checked: could not touch holder: ";
            assert!(
                text.len() > start.len() && text.starts_with(start),
                "{text}"
            );
        }
        other => panic!("an outage says nothing of the lease, but {other:?}"),
    }
    let (result, took) = released;
    assert!(took < USE_LIMIT, "release: {took:?}");
    result.expect_err("nobody was there to release it");
}

/// What needs no store needs no server.
async fn assert_the_rest_works(leases: &LeaseService) {
    let noop = leases.acquire(request("free", "ada")).await.unwrap();
    noop.check().await.unwrap();
    assert_eq!(noop.release().await.unwrap(), Release::Noop);
    let tenancy = Tenancy::new("acme", "thesis", "ada").unwrap();
    let base = || LeaseRequest::builder().tenancy(tenancy.clone());
    let none = base().lease_type(lease_type("soft")).lease(LeaseRef::None);
    assert!(leases.acquire(none.build()).await.unwrap().is_noop());
    let pdf = LeaseRef::named("pdf").unwrap();
    let unknown = base().lease_type(lease_type("nobody")).lease(pdf.clone());
    let error = leases.acquire(unknown.build()).await.unwrap_err();
    assert_eq!(error.code(), "LEASE_TYPE_UNKNOWN");
    let bound = base()
        .lease_type(lease_type("soft"))
        .lease(pdf)
        .pod_bound(true);
    let error = leases.acquire(bound.build()).await.unwrap_err();
    assert_eq!(error.code(), "LEASE_INVALID");
}

async fn rides_out(trouble: Trouble) {
    let mut stage = Stage::new(CAP).await;
    stage.world.define("free", "ttlSeconds: 60").await;
    let victim = stage.victim().await;
    assert!(
        victim
            .acquire(request("free", "ada"))
            .await
            .unwrap()
            .is_noop()
    );
    let kept = victim.acquire(request("pdf", "ada")).await.unwrap();
    let releasing = victim.acquire(request("pdf", "bob")).await.unwrap();
    let waiter = waiter(&victim, "eve").await;
    // Puts into the journal what the waiter's first attempt gave back. A crash before that brings its holder back as a
    // PENDING, which keeps eve's own slot for up to 30 s.
    kept.check().await.unwrap();

    trouble.begin(&mut stage.server).await;
    assert_the_rest_works(&victim).await;
    let (checked, took) = tokio::join!(
        timed(kept.check()),
        assert_answered_in_time(&victim, &releasing)
    )
    .0;
    assert!(took < USE_LIMIT, "{took:?}");
    assert!(
        matches!(checked, Err(CheckError::Unavailable(_))),
        "{checked:?}"
    );
    assert!(
        !waiter.is_finished(),
        "it has a place in line and time to wait"
    );
    trouble.end(&mut stage.server).await;

    kept.check().await.unwrap();
    assert_truly_held(&stage.world, &token(&kept)).await;
    // A paused server may have got the first one after all, and then the slots are back already.
    assert_eq!(releasing.release().await.unwrap(), Release::Released);
    let served = waiter.await.unwrap().unwrap();
    assert_truly_held(&stage.world, &token(&served)).await;
    kept.release().await.unwrap();
    victim.close().await;
    let again = victim.acquire(request("pdf", "ada")).await.unwrap();
    assert_ne!(token(&again), token(&kept));
    assert_truly_held(&stage.world, &token(&again)).await;

    // Nobody is left to release these two: the second outage outlives their process.
    trouble.begin(&mut stage.server).await;
    drop((again, served));
    victim.close().await;
    trouble.end(&mut stage.server).await;
    assert_all_comes_free(&stage.world, CAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_and_started_again_is_ridden_out() {
    rides_out(Trouble::Stopped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_started_again_is_ridden_out() {
    rides_out(Trouble::Killed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_and_goes_on_is_ridden_out() {
    rides_out(Trouble::Paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_server_a_service_fails_to_start_in_time_and_says_why() {
    let port = test_mongo::free_port().unwrap();
    let uri = test_mongo::single_node_uri(port);
    let database = connect(&uri).await.unwrap().database("nowhere");
    let (started, took) = timed(async { LeaseService::builder(database).start().await }).await;
    let text = chain(&started.unwrap_err());
    assert_eq!(
        text,
        "could not create indexes: no MongoDB primary can be reached"
    );
    assert!(took < USE_LIMIT, "{took:?}");
}
