//! A replica set loses its primary in every way under load, one after the other: no cap is passed, no clean-up is done
//! by two, nobody waits longer than promised, and afterwards nothing is lost.

mod floor;
mod trouble;
mod yard;

use std::sync::Arc;
use std::time::Duration;

use lease_shared::LeaseService;
use test_mongo::{ReplicaSet, TestMongo};

use crate::stage::{assert_all_comes_free, assert_truly_held, assert_within_caps};
use crate::support::{World, request, token};
use floor::{CAP, Floor};
use trouble::{Trouble, Watch};
use yard::Yard;

/// Dropped in this order: the database goes before its servers.
struct Storm {
    world: World,
    services: Vec<LeaseService>,
    set: ReplicaSet,
}

impl Storm {
    async fn gather() -> Self {
        let set = ReplicaSet::start(3).await.unwrap();
        let mongo = TestMongo::at(&set.uri()).await.unwrap();
        let world = World::on(mongo, |_| {}).await;
        let body =
            format!("levels: {{ user: 1, project: 9, tenant: 9, global: {CAP} }}\nttlSeconds: 600");
        world.define("pdf", &body).await;
        world
            .define("bench", "levels: { global: 900 }\nttlSeconds: 600")
            .await;
        world
            .define("brief", "levels: { global: 1 }\nttlSeconds: 4")
            .await;
        let mut services = Vec::new();
        for _ in 0..3 {
            services.push(world.another_service().await);
        }
        Self {
            world,
            services,
            set,
        }
    }

    /// Load before, during and after; then nobody is left, and everything must be free.
    async fn break_over(&mut self, trouble: Trouble) {
        let floor = Arc::new(Floor::default());
        let yard = Arc::new(Yard::default());
        // A slot beside those of the contenders, kept through it all.
        let kept = self.services[0]
            .acquire(request("pdf", "kept"))
            .await
            .unwrap();
        let kept = Arc::new(kept);
        let mut people = Vec::new();
        for (n, leases) in self.services.iter().enumerate() {
            for who in [format!("user-{n}"), format!("user-{}", n + 3)] {
                people.push(floor.contender(leases.clone(), who));
            }
            people.push(yard.cleaner(leases.clone()));
        }
        people.push(yard.feeder(self.world.leases.clone()));
        let watch = Watch::over(Arc::clone(&kept));
        floor.serve(6).await;
        yard.finish(4).await;

        let before = std::time::Instant::now();
        trouble
            .pass(&mut self.set, &self.services[1], &kept, &floor)
            .await;
        eprintln!("{trouble:?}: {:?}", before.elapsed());
        floor.serve(12).await;
        yard.finish(6).await;

        let (ok, unavailable) = watch.end().await;
        floor.close();
        yard.close();
        for one in people {
            one.await.unwrap();
        }
        eprintln!("  checks: {ok} ok, {unavailable} unavailable; {floor}; {yard}");
        kept.check().await.unwrap();
        assert_truly_held(&self.world, &token(&kept)).await;
        assert_within_caps(&self.world).await;
        floor.assert_never_beyond_caps();
        kept.release().await.unwrap();
        for leases in &self.services {
            leases.close().await;
        }
        self.world.leases.close().await;
        yard.assert_each_is_ended_once(&self.world).await;
        assert_all_comes_free(&self.world, CAP).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_befalls_a_replica_set_no_cap_is_passed_and_nothing_is_lost() {
    let mut storm = Storm::gather().await;
    for trouble in [
        Trouble::PrimaryKilled,
        Trouble::PrimaryStopped,
        Trouble::StepDowns,
        Trouble::NoMajority,
        Trouble::AllKilled,
    ] {
        let broken = storm.break_over(trouble);
        let broken = tokio::time::timeout(Duration::from_secs(120), broken).await;
        assert!(broken.is_ok(), "{trouble:?} does not end");
    }
}
