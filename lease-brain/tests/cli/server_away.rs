//! The server stops answering under a running command.

use std::time::Duration;

use mongodb::bson::doc;
use test_mongo::{Mongod, TestMongo};

use crate::{
    processes::DESCENDANTS,
    running::{Running, boot_clock},
    support::{Output, SOON, World, until},
};

const UNCONFIRMED: &str = "LEASE_LOST: the lease could not be confirmed within its time to live, so the command was ended";

async fn world(server: &Mongod, ttl: u32) -> World {
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    let world = World { mongo };
    let body = format!("levels: {{ global: 1 }}\nttlSeconds: {ttl}");
    world.define("pdf", &body).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn outage_shorter_than_the_time_to_live_is_survived() {
    let server = Mongod::start().await.unwrap();
    let world = world(&server, 9).await;
    let mut running = Running::start(&world, &["--kill-grace", "1s"], "sleep 300; exit 4");
    let before = running.state();
    running.mark.await_sleepers(1);
    server.pause().unwrap();
    // Long enough for a check to fall into it: they come three seconds apart, the state file has the last one.
    let next_check = before.checked.unwrap() + Duration::from_millis(3500);
    until(SOON, "a check in vain", || {
        (boot_clock() > next_check).then_some(())
    });
    server.resume().unwrap();
    until(SOON, "a later check", || {
        let state = running.state();
        (state.state == "held" && state.checked.unwrap() > next_check - Duration::from_millis(900))
            .then_some(())
    });
    let holder = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    assert_eq!(holder.get_str("_id").unwrap(), before.token);
    let sleeper = running.mark.living().into_iter().find(|it| it.0 == "sleep");
    crate::processes::signal(sleeper.unwrap().1, rustix::process::Signal::TERM);
    assert_eq!(running.end().code, Some(4));
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn server_stopped_for_longer_than_the_time_to_live_ends_the_command_in_time() {
    let server = Mongod::start().await.unwrap();
    let world = world(&server, 6).await;
    let script = format!("trap '' TERM; {DESCENDANTS}; wait");
    let mut running = Running::start(&world, &["--kill-grace", "2s"], &script);
    running.mark.await_sleepers(5);
    server.pause().unwrap();
    running.assert_gone_in_time();
    let output = running.end();
    server.resume().unwrap();
    assert_eq!(output.code, Some(76), "{output:?}");
    let error = output.error_line();
    assert!(error.starts_with(UNCONFIRMED), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_ends_the_command_in_time_and_the_state_file_tells_of_the_doubt() {
    let mut server = Mongod::start().await.unwrap();
    let world = world(&server, 9).await;
    let script = format!("trap '' TERM; {DESCENDANTS}; wait");
    let mut running = Running::start(&world, &["--kill-grace", "2s"], &script);
    running.mark.await_sleepers(5);
    let before = running.state();
    server.kill().unwrap();
    let doubt = until(SOON, "a check in vain", || {
        let state = running.state();
        (state.state == "unconfirmed").then_some(state)
    });
    // Its time runs from the last check that succeeded, which may have been one after we looked.
    let (then, now) = (before.expires.unwrap(), doubt.expires.unwrap());
    let step = Duration::from_millis(3100);
    assert!(
        now + Duration::from_millis(20) > then && now < then + step,
        "{then:?} {now:?}"
    );
    running.assert_gone_in_time();
    let output = running.end();
    assert_eq!(output.code, Some(76), "{output:?}");
    let error = output.error_line();
    assert!(error.starts_with(UNCONFIRMED), "{error}");
    assert!(
        error.contains(": the lease could not be checked: "),
        "{error}"
    );
    server.restart().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_never_shown_as_an_empty_list() {
    let server = Mongod::start().await.unwrap();
    let world = world(&server, 600).await;
    let token = world.acquire(&["pdf"]);
    let commands: [&[&str]; 8] = [
        &["list"],
        &["show", &token],
        &["counters"],
        &["pods"],
        &["cleanup", "list"],
        &["cleanup", "list", "--json"],
        &["revoke-pod", "some-pod", "--dry-run"],
        &["document", "list"],
    ];
    server.pause().unwrap();
    let children = commands.map(|args| world.command(args).spawn().unwrap());
    for (args, child) in commands.into_iter().zip(children) {
        let output = Output::of_child(child);
        assert!(!output.error(69).is_empty(), "{args:?}");
    }
    server.resume().unwrap();
}
