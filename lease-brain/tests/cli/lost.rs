//! The lease is taken from a running command.

use std::time::Duration;

use mongodb::bson::doc;

use crate::{
    processes::DESCENDANTS,
    running::{Running, boot_clock},
    support::{SOON, World, until},
};

/// Ignores the request to end, and has started others.
fn stubborn() -> String {
    format!("trap '' TERM; {DESCENDANTS}; wait")
}

#[track_caller]
fn assert_lost(running: &mut Running, reason: &str) {
    let output = running.end();
    assert_eq!(output.code, Some(76), "{output:?}");
    let error = output.error_line();
    let starts = "LEASE_LOST: the command was ended: lease ";
    assert!(
        error.starts_with(starts) && error.contains(reason),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_reaped_by_another_ends_the_command() {
    let world = World::with_pdf(6).await;
    let mut running = Running::start(&world, &["--kill-grace", "500ms"], &stubborn());
    running.mark.await_sleepers(5);
    // A check may come between the ageing and the reaping.
    let acquire = ["acquire", "pdf", "--user", "bob", "--wait", "0s"];
    let end = std::time::Instant::now() + SOON;
    loop {
        world.age(Duration::from_secs(7)).await;
        if world.lease(&acquire).code == Some(0) {
            break;
        }
        assert!(std::time::Instant::now() < end, "never reaped");
    }
    assert_lost(
        &mut running,
        "is lost: it is not held any more; released, or reaped and cleaned up; last seen ",
    );
    let holder = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    assert_eq!(
        holder.get_str("userId").unwrap(),
        "bob",
        "the new holder is left alone"
    );
    assert_eq!(world.stored().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn holder_deleted_by_hand_ends_the_command() {
    let world = World::with_pdf(3).await;
    let mut running = Running::start(&world, &["--kill-grace", "500ms"], &stubborn());
    running.mark.await_sleepers(5);
    world.holders().delete_many(doc! {}).await.unwrap();
    assert_lost(
        &mut running,
        "is lost: it is not held any more; released, or reaped and cleaned up",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn state_file_says_that_the_lease_is_lost_before_the_command_is_killed() {
    let world = World::with_pdf(3).await;
    let script = "trap 'cat \"$LEASE_STATE_FILE\"; echo; exit' TERM; sleep 300 & echo ready; wait";
    let mut running = Running::start(&world, &[], script);
    assert_eq!(running.line(), "ready");
    world.holders().delete_many(doc! {}).await.unwrap();
    let state: serde_json::Value = serde_json::from_str(&running.line()).unwrap();
    assert_eq!(
        (&state["state"], &state["expiresAt"]),
        (&"lost".into(), &().into())
    );
    running.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_command_keeps_its_slot_until_it_has_ended_and_then_gives_it_back_at_once() {
    let world = World::with_pdf(12).await;
    let mut running = Running::start(&world, &["--kill-grace", "500ms"], &stubborn());
    running.mark.await_sleepers(5);
    let expires = running.state().expires.unwrap();
    let revocation =
        doc! { "reason": "revoke", "at": "$$NOW", "attempts": 0, "nextTryAt": "$$NOW" };
    let revoked = doc! { "$set": { "state": "REVOKING", "revocation": revocation } };
    world
        .holders()
        .update_many(doc! {}, vec![revoked])
        .await
        .unwrap();

    // Until its end is confirmed nobody gets the slot, and who does finds nothing alive.
    let waiter = world
        .command(&["acquire", "pdf", "--user", "bob", "--wait", "60s"])
        .spawn();
    let mut waiter = waiter.unwrap();
    until(SOON, "the next holder", || {
        let granted = waiter.try_wait().unwrap();
        if granted.is_some() {
            assert_eq!(running.mark.living(), []);
            // The next check finds it lost, not the deadline.
            let left = expires.saturating_sub(boot_clock());
            assert!(left > Duration::from_secs(2), "only when its time was up");
        }
        granted
    });
    assert_lost(&mut running, "is lost: an operator revoked it");
    let holder = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    assert_eq!(holder.get_str("userId").unwrap(), "bob");
    assert_eq!(world.stored().await, (1, 1));
}
