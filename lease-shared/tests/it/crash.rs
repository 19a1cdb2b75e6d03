//! A process that dies at every point of the protocol in turn, and what others find of it afterwards.
//!
//! A rehearsal counts the failpoints that an operation passes. Then, for each of them, another process does the same on
//! a clean slate and aborts there. What it left must never exceed a cap, and must be freed by the next acquirers alone,
//! and just as well by one sweep and one reconcile.

mod acquire;
mod cleanup;
mod reap;
mod reconcile;
mod release;
mod revoke;
mod scene;

use mongodb::bson::{Document, doc};

use crate::actor::Actor;
use crate::protocol::Order;
use crate::support::World;
use scene::Scene;

/// SIGABRT: it died at its failpoint and not of anything else.
const ABORTED: Option<i32> = Some(6);

/// The last thing before the crash, and who holds slots beside it and lives on.
pub(crate) struct Prepared {
    order: Order,
    bystanders: Vec<String>,
}

impl From<Order> for Prepared {
    fn from(order: Order) -> Self {
        Self {
            order,
            bystanders: Vec::new(),
        }
    }
}

/// Crashes what `prepare` gives at each of its points. `prepare` must do the same each time.
async fn at_every_point(prepare: impl AsyncFn(&Scene<'_>, &Actor) -> Prepared) {
    let world = World::new().await;
    let body = "levels: { user: 1, project: 2, tenant: 3, global: 4 }\nttlSeconds: 60";
    world.define("pdf", body).await;
    let points = rehearse(&world, &prepare).await;
    for point in 1..=points {
        let scene = Scene::clean(&world).await;
        let mut actor = Actor::start(&world);
        let prepared = prepare(&scene, &actor).await;
        world.commit().await;
        actor.ask(Order::AbortAfter(point)).await;
        perform(&actor, prepared.order).await;
        assert_eq!(actor.ended_by(), ABORTED, "at point {point} of {points}");
        aftermath(&scene, &prepared.bystanders, point).await;
    }
}

/// Does it once without a crash, and gives the number of points at which it can crash.
async fn rehearse(world: &World, prepare: &impl AsyncFn(&Scene<'_>, &Actor) -> Prepared) -> usize {
    let scene = Scene::clean(world).await;
    let actor = Actor::start(world);
    let prepared = prepare(&scene, &actor).await;
    actor.ask(Order::Close).await;
    world.commit().await;
    let (hits, commands) = actor.counted().await;
    perform(&actor, prepared.order).await;
    let (hits, commands) = {
        let after = actor.counted().await;
        (after.0 - hits, after.1 - commands)
    };
    eprintln!("{commands} commands, {hits} points");
    assert!(commands > 0 && hits >= 2 * commands, "{hits}, {commands}");
    aftermath(&scene, &prepared.bystanders, 0).await;
    hits
}

/// The operation with what follows in the background. Its answer does not matter, only what is stored.
async fn perform(actor: &Actor, order: Order) {
    if actor.tell(order).await.is_some() {
        actor.tell(Order::Close).await;
    }
}

/// Judges what the crash left, twice over: without and with anybody who cleans up.
async fn aftermath(scene: &Scene<'_>, bystanders: &[String], point: usize) {
    scene.assert_none_over_cap(point).await;
    let left = Stored::read(scene.world).await;
    if !scene.waits_for_a_handler().await {
        scene.age_all_but(bystanders).await;
        scene.release(bystanders).await;
        scene.assert_all_slots_can_be_had(point).await;
        left.write(scene.world).await;
    }
    scene.age_all_but(bystanders).await;
    let report = scene.world.leases.sweep().await;
    assert!(report.failed.is_empty(), "at point {point}: {report:?}");
    let reconciler = scene.world.leases.reconciler();
    let report = reconciler.reconcile(false).await.unwrap();
    assert!(report.drift.is_empty(), "at point {point}: {report:?}");
    scene.world.assert_counters_equal_holders().await;
    scene.assert_only_handlers_are_awaited(bystanders).await;
    scene.finish_clean_ups(point).await;
    scene.assert_only_these_are_left(bystanders, point).await;
    scene.release(bystanders).await;
    scene.assert_all_slots_can_be_had(point).await;
    scene.world.assert_counters_equal_holders().await;
}

/// Everything about leases that is stored.
struct Stored {
    holders: Vec<Document>,
    counters: Vec<Document>,
}

impl Stored {
    async fn read(world: &World) -> Self {
        Self {
            holders: world.all_holders().await,
            counters: world.all_counters().await,
        }
    }

    async fn write(self, world: &World) {
        for (collection, documents) in [
            (world.holders(), self.holders),
            (world.counters(), self.counters),
        ] {
            collection.delete_many(doc! {}).await.unwrap();
            if !documents.is_empty() {
                collection.insert_many(documents).await.unwrap();
            }
        }
    }
}
