//! A command reaches the server long after its sender was cut off and has sent it again, undone it, or gone on.

use std::time::Duration;

use lease_shared::{CheckError, Lease, LeaseService, Phase, Release};

use crate::relay::{Late, Relay};
use crate::stage::{
    age_all, assert_all_comes_free, assert_truly_held, assert_within_caps, only_these_stay,
};
use crate::support::{World, request, service, token};

const CAP: usize = 2;

struct Scene {
    world: World,
    relay: Relay,
    /// A service that speaks through the relay.
    cut: LeaseService,
}

impl Scene {
    async fn new() -> Self {
        let world = World::new().await;
        let body = "levels: { user: 1, project: 2, tenant: 2, global: 2 }\nttlSeconds: 600";
        world.define("pdf", body).await;
        let relay = Relay::to(&world).await;
        let cut = service(&relay.database(&world).await).await.0;
        Self { world, relay, cut }
    }

    /// Keeps the first command of `work` after `step` has been reached back; `work` ends without it.
    async fn without<T: Send + 'static>(
        &self,
        step: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> (T, Late) {
        let gate = self.cut.failpoints().pause(step, Phase::Before);
        let work = tokio::spawn(work);
        gate.reached().await;
        let late = self.relay.hold();
        gate.open();
        let late = late.await.unwrap();
        (work.await.unwrap(), late)
    }

    async fn acquired_without(&self, step: &'static str) -> (Lease, Late) {
        let cut = self.cut.clone();
        let work = async move { cut.acquire(request("pdf", "ada")).await.unwrap() };
        self.without(step, work).await
    }

    /// Lets the lease's time run out, and another have its slot.
    async fn reaped(&self, lease: &Lease) -> Lease {
        self.world
            .age(&token(lease), Duration::from_secs(700))
            .await;
        assert_eq!(self.world.leases.sweep().await.idle, 1);
        self.world
            .leases
            .acquire(request("pdf", "ada"))
            .await
            .unwrap()
    }

    async fn revoking(&self, lease: &Lease) {
        assert_eq!(
            self.world.state(&token(lease)).await.as_deref(),
            Some("REVOKING")
        );
        let checked = lease.check().await;
        assert!(matches!(checked, Err(CheckError::Lost(_))), "{checked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_open_brings_no_lease_back_that_a_reaper_took() {
    let scene = Scene::new().await;
    let gate = scene.cut.failpoints().pause("mark held", Phase::Before);
    let late = scene.relay.hold();
    let cut = scene.cut.clone();
    let acquire = tokio::spawn(async move { cut.acquire(request("pdf", "ada")).await });
    let late = late.await.unwrap();
    // By now a second holder has been opened and booked. Its process is slow, and it is taken for dead.
    gate.reached().await;
    age_all(&scene.world).await;
    assert_eq!(scene.world.leases.sweep().await.stale, 1);
    let other = scene
        .world
        .leases
        .acquire(request("pdf", "bob"))
        .await
        .unwrap();
    late.deliver().await;
    gate.open();
    match acquire.await.unwrap() {
        Ok(lease) => panic!("{} was taken, and has no booking", token(&lease)),
        Err(error) => assert_eq!(error.code(), "LEASE_UNAVAILABLE"),
    }
    assert_truly_held(&scene.world, &token(&other)).await;
    scene.cut.close().await;
    age_all(&scene.world).await;
    assert_eq!(
        scene.world.leases.sweep().await.stale,
        1,
        "what the late copy left"
    );
    drop(other);
    scene.world.leases.close().await;
    assert_all_comes_free(&scene.world, CAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_booking_changes_nothing_while_its_lease_is_held_and_never_passes_a_cap() {
    let scene = Scene::new().await;
    let (lease, late) = scene.acquired_without("book counters").await;
    late.deliver().await;
    only_these_stay(&scene.world, &[token(&lease)]).await;
    lease.release().await.unwrap();
    scene.cut.close().await;

    let (lease, late) = scene.acquired_without("book counters").await;
    lease.release().await.unwrap();
    scene.cut.close().await;
    let leases = &scene.world.leases;
    let bob = leases.acquire(request("pdf", "bob")).await.unwrap();
    let eve = leases.acquire(request("pdf", "eve")).await.unwrap();
    late.deliver().await;
    assert_within_caps(&scene.world).await;
    for lease in [bob, eve] {
        assert_truly_held(&scene.world, &token(&lease)).await;
        lease.release().await.unwrap();
    }
    leases.close().await;
    assert_eq!(
        scene.world.in_use().await["pdf|user|acme/ada"],
        1,
        "what the late copy left"
    );
    assert_all_comes_free(&scene.world, CAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_held_or_check_revives_no_lease_that_was_reaped() {
    let scene = Scene::new().await;
    let (lease, late_held) = scene.acquired_without("mark held").await;
    assert_truly_held(&scene.world, &token(&lease)).await;
    let checking = async move { (lease.check().await, lease) };
    let ((checked, lease), late_check) = scene.without("touch holder", checking).await;
    checked.unwrap();
    let next = scene.reaped(&lease).await;
    late_held.deliver().await;
    scene.revoking(&lease).await;
    late_check.deliver().await;
    scene.revoking(&lease).await;
    assert_eq!(lease.release().await.unwrap(), Release::AlreadyReleased);
    assert_truly_held(&scene.world, &token(&next)).await;
    next.release().await.unwrap();
    scene.world.leases.close().await;
    assert_all_comes_free(&scene.world, CAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_held_or_check_brings_no_released_lease_back() {
    let scene = Scene::new().await;
    let (lease, late_held) = scene.acquired_without("mark held").await;
    let checking = async move { (lease.check().await, lease) };
    let ((checked, lease), late_check) = scene.without("touch holder", checking).await;
    checked.unwrap();
    lease.release().await.unwrap();
    late_held.deliver().await;
    late_check.deliver().await;
    only_these_stay(&scene.world, &[]).await;
    assert_all_comes_free(&scene.world, CAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_release_or_unbooking_takes_nothing_from_the_next_holder() {
    let scene = Scene::new().await;
    for step in ["take holder", "unbook"] {
        let lease = scene.cut.acquire(request("pdf", "ada")).await.unwrap();
        let releasing = async move { lease.release().await.unwrap() };
        let (released, late) = scene.without(step, releasing).await;
        assert_eq!(released, Release::Released, "{step}");
        scene.cut.close().await;
        let next = scene.cut.acquire(request("pdf", "ada")).await.unwrap();
        late.deliver().await;
        assert_truly_held(&scene.world, &token(&next)).await;
        only_these_stay(&scene.world, &[token(&next)]).await;
        next.release().await.unwrap();
        scene.cut.close().await;
    }
    assert_all_comes_free(&scene.world, CAP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_reaped_before_it_books_gives_its_late_booking_back() {
    let scene = Scene::new().await;
    let gate = scene.cut.failpoints().pause("book counters", Phase::Before);
    let cut = scene.cut.clone();
    let acquire = tokio::spawn(async move { cut.acquire(request("pdf", "ada")).await });
    gate.reached().await;
    age_all(&scene.world).await;
    assert_eq!(scene.world.leases.sweep().await.stale, 1);
    gate.open();
    let error = acquire.await.unwrap().unwrap_err();
    assert_eq!(error.code(), "LEASE_UNAVAILABLE");
    only_these_stay(&scene.world, &[]).await;
    assert_all_comes_free(&scene.world, CAP).await;
}
