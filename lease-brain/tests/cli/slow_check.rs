//! The server is slow, or cannot be asked, between the acquire and the command, and after.

use std::time::Duration;

use rustix::process::Signal;
use test_mongo::{FailCommand, Mongod, TestMongo};

use crate::{
    processes::signal,
    running::{Running, boot_clock},
    support::{Output, SOON, World, until},
};

/// Each check takes a while, also the one before the command starts.
async fn world_with_slow_checks(server: &Mongod) -> (World, test_mongo::FailPoint) {
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    let world = World { mongo };
    world
        .define("pdf", "levels: { global: 1 }\nttlSeconds: 9")
        .await;
    // An acquire sends three: the holder, its booking, and that it is held.
    let slow = FailCommand::on(&["update", "findAndModify"])
        .skip(3)
        .block(Duration::from_millis(1500));
    let slow = slow.set(&server.uri()).await.unwrap();
    (world, slow)
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_between_the_acquire_and_the_command_is_not_lost() {
    let server = Mongod::start().await.unwrap();
    let (world, slow) = world_with_slow_checks(&server).await;
    let mut command = world.command(&["run", "pdf", "--", "sleep", "300"]);
    let wrapper = command.spawn().unwrap();
    let held = async || Ok(world.lease(&["list", "--state", "held", "--json"]).stdout != "[]\n");
    test_mongo::eventually("the lease is held", SOON, held)
        .await
        .unwrap();
    signal(wrapper.id().cast_signed(), Signal::TERM);
    slow.off().await.unwrap();
    Output::of_child(wrapper).assert(143, "");
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_counts_from_the_sending_of_the_last_check_that_succeeded() {
    let server = Mongod::start().await.unwrap();
    let (world, slow) = world_with_slow_checks(&server).await;
    let mut running = Running::start(&world, &[], "exec sleep 300");
    let started = running.state();
    slow.off().await.unwrap();
    // Unauthorized, which no second try mends: the check fails at once.
    let refused = FailCommand::on(&["update", "findAndModify"]).error_code(13);
    let refused = refused.set(&server.uri()).await.unwrap();
    let doubt = until(SOON, "a check in vain", || {
        let state = running.state();
        (state.state == "unconfirmed").then_some(state)
    });
    let moved = doubt.expires.unwrap().abs_diff(started.expires.unwrap());
    assert!(moved < Duration::from_millis(500), "by {moved:?}");
    refused.off().await.unwrap();
    until(SOON, "a check", || {
        (running.state().state == "held").then_some(())
    });
    running.signal(Signal::TERM);
    running.end().assert(143, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn deadline_counts_from_the_sending_however_late_the_answer() {
    let server = Mongod::start().await.unwrap();
    let (world, slow) = world_with_slow_checks(&server).await;
    let running = Running::start(&world, &[], "trap '' TERM; sleep 300 & wait");
    let first = running.state();
    // The second is as slow.
    let second = until(SOON, "a check", || {
        let state = running.state();
        // Reading one clock for another is not exact.
        let later = first.checked.unwrap() + Duration::from_millis(100);
        (state.checked.unwrap() > later).then_some(state)
    });
    let since = boot_clock() - second.checked.unwrap();
    assert!(since > Duration::from_millis(1400), "{since:?}");
    running.signal(Signal::STOP);
    running.assert_gone_in_time();
    drop(running);
    slow.off().await.unwrap();
}
