//! Two reconcilers that never rest, beside a storm of acquires and releases.

use crate::actor::{Actor, times};
use crate::journal::Journal;
use crate::protocol::{Contest, Order};
use crate::support::World;

#[tokio::test(flavor = "multi_thread")]
async fn two_reconcilers_take_no_slot_from_a_live_lease_and_let_none_pass_a_cap() {
    const ROUNDS: usize = 2000;
    let world = World::new().await;
    world
        .define(
            "pdf",
            "levels: { user: 2, project: 5, tenant: 5, global: 5 }",
        )
        .await;
    let storms = [(); 2].map(|()| Actor::start(&world));
    let reconcilers = [(); 2].map(|()| Actor::start(&world));
    let endless = reconcilers
        .each_ref()
        .map(|actor| actor.tell(Order::ReconcileOn));
    let journal = Journal::new();
    let users = ["ada", "bob", "cid", "dan"];
    let tenancies = users.map(|user| ["acme", "thesis", user].map(str::to_owned));
    let contests = storms.each_ref().map(|actor| {
        actor.tell(Order::Contend(Contest {
            lease: "pdf".to_owned(),
            tenancies: tenancies.to_vec(),
            contenders: 12,
            rounds: ROUNDS / 2,
            journal: journal.path().to_owned(),
            meet: 5,
            look_in: 4,
        }))
    });
    for contest in contests {
        assert_eq!(times(contest.await.unwrap()), ROUNDS / 2);
    }
    let mut passes = 0;
    for (actor, endless) in reconcilers.iter().zip(endless) {
        actor.ask(Order::Stop).await;
        passes += times(endless.await.unwrap());
    }
    let (entered, most) = journal.read();
    eprintln!("{entered} rounds beside {passes} reconciles, {most:?}");
    assert_eq!(entered, ROUNDS);
    assert!(passes > 100, "{passes} reconciles");
    assert!(
        most["global"] <= 5
            && users
                .iter()
                .all(|user| most[&format!("user acme/{user}")] <= 2)
    );
    assert_eq!(world.all_holders().await.len(), 0);
    assert!(world.in_use().await.values().all(|slots| *slots == 0));
}
