//! The wrapper is killed or stopped: what runs under the lease ends before anybody else can get the slot.

use rustix::process::Signal;

use crate::{
    processes::DESCENDANTS,
    running::{Running, boot_clock},
    support::{Output, World},
};

/// Of six seconds, the last three are between TERM and KILL: longer than anything on a crowded machine.
const TTL: u32 = 6;
const GRACE: [&str; 2] = ["--kill-grace", "2s"];

/// Another user waits for the slot meanwhile, and gets it by reaping; nothing of the command may live then.
async fn slot_follows_the_end_of(running: &Running, world: &World) {
    let mut command = world.command(&["acquire", "pdf", "--user", "bob", "--wait", "60s"]);
    let waiter = command.spawn().unwrap();
    let expires = running.assert_gone_in_time();
    // It may have waited for long enough to say so.
    let output = Output::of_child(waiter);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(boot_clock() > expires, "the slot was given before its time");
    assert_eq!(world.stored().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_wrapper_takes_all_along_though_they_ignore_the_request() {
    let world = World::with_pdf(TTL).await;
    let script = format!("trap '' TERM; {DESCENDANTS}; wait");
    let mut running = Running::start(&world, &GRACE, &script);
    running.mark.await_sleepers(5);
    running.kill_wrapper();
    slot_follows_the_end_of(&running, &world).await;
    running.await_state_file_gone();
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_wrapper_finds_all_ended_and_says_so_once_it_goes_on() {
    let world = World::with_pdf(TTL).await;
    let script = format!("trap '' TERM; {DESCENDANTS}; wait");
    let mut running = Running::start(&world, &GRACE, &script);
    running.mark.await_sleepers(5);
    running.signal(Signal::STOP);
    slot_follows_the_end_of(&running, &world).await;
    running.signal(Signal::CONT);
    let output = running.end();
    assert_eq!(output.code, Some(76));
    let error = output.error_line();
    assert!(
        error.starts_with("LEASE_LOST: ") && error.contains("the command was ended"),
        "{error}"
    );
    // The slot is another's by now, and stays so.
    assert_eq!(world.stored().await, (1, 1));
}
