//! Real processes that are stopped at a point of the protocol and go on much later, or are killed while they wait.

use std::time::Duration;

use lease_shared::Phase::{self, After, Before};
use rustix::process::Signal;
use test_mongo::eventually;

use super::cast::{Cast, Point, granted};
use crate::actor::{Actor, want};
use crate::protocol::{Answer, Order, Want};
use crate::support::waiting;

async fn pause(actor: &Actor, (step, phase): Point) -> usize {
    actor.pause(step, phase == Phase::After).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_stopped_by_the_system_leaves_one_believer() {
    for point in [
        ("open holder", After),
        ("book counters", After),
        ("mark held", After),
    ] {
        eprintln!("{point:?}");
        let cast = Cast::new().await;
        let actor = Actor::start(&cast.world);
        let gate = pause(&actor, point).await;
        let acquire = actor.tell(Order::Acquire(want("soft", "ada")));
        actor.ask(Order::Reached(gate)).await;
        actor.signal(Signal::STOP);
        cast.age_all().await;
        cast.clean_up().await;
        let rival = cast.rival().await;
        assert!(rival.is_some(), "the slot of one who is stopped is lost");
        // It goes on at once when it runs again.
        let opened = actor.tell(Order::Open(gate));
        actor.signal(Signal::CONT);
        opened.await.unwrap();
        match acquire.await.unwrap() {
            Answer::Held(token) => {
                assert_eq!(point.0, "mark held");
                assert_eq!(actor.ask(Order::Check(token)).await, Answer::Lost);
            }
            Answer::Busy | Answer::Failed(_) => assert_ne!(point.0, "mark held"),
            other => panic!("{other:?}"),
        }
        actor.ask(Order::Close).await;
        cast.assert_believers(&[&rival], 1).await;
        cast.assert_all_free(vec![rival]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_releaser_stopped_by_the_system_takes_nothing_from_the_next_holder() {
    for point in [
        ("take holder", Before),
        ("take holder", After),
        ("unbook", Before),
    ] {
        eprintln!("{point:?}");
        let cast = Cast::new().await;
        let actor = Actor::start(&cast.world);
        let token = actor.acquire(want("soft", "ada")).await;
        let gate = pause(&actor, point).await;
        let release = actor.tell(Order::Release(token));
        actor.ask(Order::Reached(gate)).await;
        actor.signal(Signal::STOP);
        cast.age_all().await;
        cast.clean_up().await;
        let rival = cast.rival().await;
        assert!(rival.is_some(), "the slot of one who is stopped is lost");
        let opened = actor.tell(Order::Open(gate));
        actor.signal(Signal::CONT);
        opened.await.unwrap();
        let late = match point {
            ("take holder", Before) => Answer::AlreadyReleased,
            _ => Answer::Done,
        };
        assert_eq!(release.await.unwrap(), late);
        actor.ask(Order::Close).await;
        cast.assert_believers(&[&rival], 1).await;
        cast.assert_all_free(vec![rival]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_that_are_killed_keep_nobody_out_and_leave_nothing_booked() {
    for _ in 0..10 {
        let cast = Cast::new().await;
        let held = cast.rival().await;
        let mut killed = Actor::start(&cast.world);
        let bob = Want {
            wait_ms: 60_000,
            ..want("soft", "bob")
        };
        killed.ask(Order::Queue(bob.clone(), 20)).await;
        // Another process stands in line as well, and then the first line dies with its process.
        let alive = Actor::start(&cast.world);
        let next = alive.tell(Order::Acquire(bob));
        killed.signal(Signal::KILL);
        assert_eq!(killed.ended_by(), Some(9));
        held.unwrap().release().await.unwrap();
        let Some(Answer::Held(token)) = next.await else {
            panic!("the waiter that lives was not served");
        };
        assert_eq!(alive.ask(Order::Release(token)).await, Answer::Done);
        alive.ask(Order::Close).await;
        cast.assert_all_free(Vec::new()).await;
        assert_eq!(cast.world.all_holders().await.len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_that_are_killed_when_a_slot_comes_back_cost_at_most_its_time() {
    for _ in 0..10 {
        let cast = Cast::new().await;
        let held = cast.rival().await.unwrap();
        let mut killed = Actor::start(&cast.world);
        let bob = Want {
            wait_ms: 60_000,
            ..want("soft", "bob")
        };
        killed.ask(Order::Queue(bob, 20)).await;
        held.release().await.unwrap();
        // Somewhere in what follows it is killed: polling, booking, holding.
        eventually("somebody has a look", Duration::from_secs(10), async || {
            Ok(fastrand::u8(..4) == 0 || !cast.world.all_holders().await.is_empty())
        })
        .await
        .unwrap();
        killed.signal(Signal::KILL);
        assert_eq!(killed.ended_by(), Some(9));
        // What the server still had of it when it died may come after the first ageing, but not after the second.
        let mut next = None;
        for _ in 0..2 {
            cast.age_all().await;
            let wait = Duration::from_secs(5);
            let request = waiting("pdf", "eve", wait);
            next = granted(cast.world.leases.acquire(request).await);
            if next.is_some() {
                break;
            }
        }
        let next = next.expect("the slot of one who was killed is lost");
        cast.assert_stands(&next).await;
        // One that was killed before it booked is in nobody's way, so only a sweep finds it.
        cast.age_all().await;
        next.check().await.unwrap();
        cast.clean_up().await;
        cast.assert_all_free(vec![Some(next)]).await;
    }
}
