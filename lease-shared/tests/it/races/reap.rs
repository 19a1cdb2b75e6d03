//! A holder and two reapers want the same lease.

use crate::actor::{Actor, times};
use crate::protocol::{Answer, Order};
use crate::support::World;

use super::idle::{IdleLeases, states, world};

/// How the leases of one batch fared: which the holder found still its own, and how many the reapers took.
struct Met {
    leases: IdleLeases,
    order: Vec<String>,
    own: Vec<bool>,
    reaped: usize,
}

/// One process uses all leases of a batch in some order, while two others sweep.
async fn meet(
    world: &World,
    actors: &[Actor; 3],
    kind: &str,
    count: usize,
    act: impl Fn(Vec<String>) -> Order,
) -> Met {
    let leases = IdleLeases::instead(world, kind, count).await;
    let order = leases.shuffled();
    let [holder, first, second] = actors;
    let (own, first, second) = tokio::join!(
        holder.tell(act(order.clone())),
        first.tell(Order::Sweep),
        second.tell(Order::Sweep),
    );
    let Some(Answer::Each(own)) = own else {
        panic!("{own:?}");
    };
    Met {
        leases,
        order,
        own,
        reaped: times(first.unwrap()) + times(second.unwrap()),
    }
}

fn actors(world: &World) -> [Actor; 3] {
    [(); 3].map(|()| Actor::start(world))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_released_or_reaped_and_its_next_holder_keeps_the_slot() {
    const ROUNDS: usize = 3000;
    const BATCH: usize = 150;
    let world = world().await;
    let actors = actors(&world);
    let (mut released, mut reaped) = (0, 0);
    for batch in 0..ROUNDS / BATCH {
        let kind = ["soft", "command"][batch % 2];
        let met = meet(&world, &actors, kind, BATCH, Order::ReleaseAll).await;
        let own = met.own.iter().filter(|own| **own).count();
        assert_eq!(own + met.reaped, BATCH, "one end for each lease");
        // The unbooking of a release still goes on while the next holders come.
        met.leases.succeed(&world).await;
        actors[0].ask(Order::Close).await;
        world.assert_counters_equal_holders().await;
        assert!(world.in_use().await.values().all(|slots| *slots == 1));
        (released, reaped) = (released + own, reaped + met.reaped);
    }
    eprintln!("{released} released, {reaped} reaped");
    assert_eq!(released + reaped, ROUNDS);
    assert!(released > 0 && reaped > 0, "they met");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_says_held_and_it_stays_so_or_lost_and_it_is_gone() {
    const ROUNDS: usize = 10_000;
    const BATCH: usize = 500;
    let world = world().await;
    let actors = actors(&world);
    let (mut kept, mut reaped) = (0, 0);
    for batch in 0..ROUNDS / BATCH {
        let kind = ["soft", "command"][batch % 2];
        let met = meet(&world, &actors, kind, BATCH, Order::CheckAll).await;
        let states = states(&world).await;
        for (token, own) in met.order.iter().zip(&met.own) {
            let state = states.get(token).map(String::as_str);
            match (own, kind) {
                (true, _) => assert_eq!(state, Some("HELD")),
                (false, "soft") => assert_eq!(state, Some("REVOKING")),
                (false, _) => assert_eq!(state, None),
            }
        }
        let own = met.own.iter().filter(|own| **own).count();
        assert_eq!(own + met.reaped, BATCH, "one end for each lease");
        world.assert_counters_equal_holders().await;
        // Nothing that a check said is different the next time, and no document has come back.
        let again = actors[0].ask(Order::CheckAll(met.order)).await;
        assert_eq!(again, Answer::Each(met.own));
        assert_eq!(world.all_holders().await.len(), states.len());
        (kept, reaped) = (kept + own, reaped + met.reaped);
    }
    eprintln!("{kept} kept, {reaped} reaped");
    assert_eq!(kept + reaped, ROUNDS);
    assert!(kept > 0 && reaped > 0, "they met");
}
