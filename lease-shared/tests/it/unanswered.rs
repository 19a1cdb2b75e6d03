//! The server fails for longer than anybody waits, at every command of acquire, check and release at once: everybody
//! is told so in time, nobody is told what is not true, and afterwards each slot has its holder or is free.

use std::time::{Duration, Instant};

use lease_shared::{
    AcquireError, CheckError, Gate, Lease, LeaseService, Phase, Release, StoreError,
};
use mongodb::bson::doc;
use test_mongo::{FailCommand, FailPoint};
use tokio::task::JoinHandle;

use crate::stage::{
    ACQUIRE_LIMIT, Stage, USE_LIMIT, assert_all_comes_free, assert_truly_held, assert_within_caps,
    chain, only_these_stay,
};
use crate::support::{request, token};

const CAP: usize = 6;

/// A victim stopped before each command: three acquires, a check, and a release before and after its holder is gone.
struct Stopped {
    victim: LeaseService,
    gates: Vec<Gate>,
    acquires: Vec<JoinHandle<(Result<Lease, AcquireError>, Duration)>>,
    check: JoinHandle<(Result<(), CheckError>, Duration, Lease)>,
    take: JoinHandle<(Result<Release, StoreError>, Duration, Lease)>,
}

/// What became of them.
struct Outcome {
    victim: LeaseService,
    checked: Lease,
    /// A release that did not succeed.
    taken: Lease,
}

impl Stopped {
    async fn new(stage: &Stage) -> Self {
        let victim = stage.victim().await;
        let points = victim.failpoints().clone();
        let take = |who: &'static str| {
            let victim = victim.clone();
            async move { victim.acquire(request("pdf", who)).await.unwrap() }
        };
        let (checked, taken, unbooked) = (take("ann").await, take("ben").await, take("cyd").await);
        let mut gates = vec![points.pause("unbook", Phase::Before)];
        assert_eq!(unbooked.release().await.unwrap(), Release::Released);
        gates[0].reached().await;

        gates.push(points.pause("take holder", Phase::Before));
        let take = tokio::spawn(async move {
            let started = Instant::now();
            (taken.release().await, started.elapsed(), taken)
        });
        gates[1].reached().await;
        gates.push(points.pause("touch holder", Phase::Before));
        let check = tokio::spawn(async move {
            let started = Instant::now();
            (checked.check().await, started.elapsed(), checked)
        });
        gates[2].reached().await;
        let mut acquires = Vec::new();
        // The farthest first, for each passes the gates of those behind it.
        for (step, who) in [
            ("mark held", "dan"),
            ("book counters", "eva"),
            ("open holder", "fay"),
        ] {
            let gate = points.pause(step, Phase::Before);
            let victim = victim.clone();
            acquires.push(tokio::spawn(async move {
                let started = Instant::now();
                (victim.acquire(request("pdf", who)).await, started.elapsed())
            }));
            gate.reached().await;
            gates.push(gate);
        }
        Self {
            victim,
            gates,
            acquires,
            check,
            take,
        }
    }

    /// Lets all of them run into the trouble that is on by now.
    async fn go_on(self, stage: &Stage) -> Outcome {
        self.gates.iter().for_each(Gate::open);
        for acquire in self.acquires {
            let (result, took) = in_time(acquire).await;
            assert!(took < ACQUIRE_LIMIT, "acquire took {took:?}");
            let error = result.expect_err("an acquire whose outcome nobody knows is no success");
            assert_eq!(error.code(), "LEASE_UNAVAILABLE");
            assert!(chain(&error).starts_with("no lease can be given now: could not "));
        }
        let (result, took, checked) = in_time(self.check).await;
        assert!(took < USE_LIMIT, "check took {took:?}");
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
        let (result, took, taken) = in_time(self.take).await;
        assert!(took < USE_LIMIT, "release took {took:?}");
        let error = result.expect_err("nobody knows whether the holder is gone");
        assert_eq!(error.step(), "take holder");
        assert_within_caps(&stage.world).await;
        Outcome {
            victim: self.victim,
            checked,
            taken,
        }
    }
}

/// Not exact, but it turns an answer that never comes into a failure.
async fn in_time<T>(answer: JoinHandle<T>) -> T {
    let answer = tokio::time::timeout(3 * ACQUIRE_LIMIT, answer).await;
    answer.expect("no answer at all").unwrap()
}

impl Outcome {
    /// The commands were carried out, or were not; either way the undoing ends by itself.
    async fn settle(self, stage: &Stage, release_applied: bool) {
        let world = &stage.world;
        let (checked, taken) = (token(&self.checked), token(&self.taken));
        if release_applied {
            assert_eq!(world.state(&taken).await, None);
        } else {
            only_these_stay(world, &[checked.clone(), taken.clone()]).await;
            self.taken.check().await.unwrap();
            assert_truly_held(world, &taken).await;
        }
        let expected = match release_applied {
            true => Release::AlreadyReleased,
            false => Release::Released,
        };
        assert_eq!(self.taken.release().await.unwrap(), expected);
        only_these_stay(world, std::slice::from_ref(&checked)).await;
        self.checked.check().await.unwrap();
        assert_truly_held(world, &checked).await;
        assert_eq!(self.checked.release().await.unwrap(), Release::Released);
        self.victim.close().await;
        assert_all_comes_free(world, CAP).await;
    }
}

async fn run(fault: FailCommand, release_applied: bool) {
    let stage = Stage::new(CAP).await;
    let stopped = Stopped::new(&stage).await;
    let guard = stage.fail(fault).await;
    let outcome = stopped.go_on(&stage).await;
    guard.off().await.unwrap();
    outcome.settle(&stage, release_applied).await;
}

fn writes() -> FailCommand {
    FailCommand::on(&["update", "findAndModify"])
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_close_for_ever_are_unavailable_and_undo_nothing_that_stands() {
    run(writes().close_connection(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_no_primary_is_unavailable_and_undoes_nothing_that_stands() {
    run(writes().error_code(10107), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_no_majority_confirms_are_never_reported_as_done() {
    let error = doc! { "code": 64, "errmsg": "waiting for replication timed out" };
    run(writes().write_concern_error(error), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_are_applied_but_never_answered_are_undone_or_stand_as_a_whole() {
    let stage = Stage::new(CAP).await;
    let stopped = Stopped::new(&stage).await;
    let uri = stage.server.uri();
    let guard = FailPoint::hang_before_write_concern(&uri).await.unwrap();
    let outcome = stopped.go_on(&stage).await;
    guard.off().await.unwrap();
    outcome.settle(&stage, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_of_30_s_keeps_nobody_waiting_longer_than_promised() {
    let stage = Stage::new(CAP).await;
    let stopped = Stopped::new(&stage).await;
    // Exactly those that are stopped are blocked. What undoes them is not, and comes before their block has ended.
    let blocked = writes().block(Duration::from_secs(30)).times(6);
    let guard = stage.fail(blocked).await;
    let outcome = stopped.go_on(&stage).await;
    outcome.settle(&stage, false).await;
    // To switch it off would wait for the 30 s to end. It goes with its server.
    std::mem::forget(guard);
}
