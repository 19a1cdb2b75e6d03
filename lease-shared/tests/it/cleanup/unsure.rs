//! One command of a revocation or of a clean-up fails, or is carried out unanswered: what is said of it is true, and
//! no slot is left to nobody.

use std::time::Duration;

use lease_shared::{Cleanup, Decision, LeaseService, LeaseToken, Release, Revoked, SlotAfter};
use test_mongo::FailCommand;

use super::{CLAIM_OVER, claim, cleaner, revoked};
use crate::fault::{FAULTS, Fault, hit_once};
use crate::stage::Stage;
use crate::support::{pod_id, request, request_by, token};

/// A victim on a server of its own, with a slot for each.
struct Scene {
    stage: Stage,
    victim: LeaseService,
}

impl Scene {
    async fn new() -> Self {
        let stage = Stage::new(9).await;
        let victim = stage.victim().await;
        Self { stage, victim }
    }

    async fn held(&self, kind: &str, pod: Option<&str>) -> LeaseToken {
        let lease = self
            .stage
            .world
            .leases
            .acquire(request_by(kind, pod, "ada"))
            .await;
        lease.unwrap().into_token().unwrap()
    }

    /// A clean-up that the victim has claimed.
    async fn claimed(&self) -> Cleanup {
        let token = self.exclusive().await;
        claim(&self.victim, &token).await.unwrap()
    }

    async fn exclusive(&self) -> LeaseToken {
        revoked(&self.stage.world, "hard", Some("pod-a"), "ada").await
    }

    async fn hit<T: Send + 'static>(
        &self,
        step: &'static str,
        fault: Fault,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        hit_once(&self.stage, &self.victim, step, fault, work)
            .await
            .0
    }

    /// Nothing is stored of it, and its slot is another's at once.
    async fn assert_free(&self, token: &LeaseToken, what: impl std::fmt::Debug) {
        let world = &self.stage.world;
        assert_eq!(world.state(token).await, None, "{what:?}");
        world.assert_counters_equal_holders().await;
        self.assert_next_is_served().await;
    }

    async fn assert_next_is_served(&self) {
        let next = self
            .stage
            .world
            .leases
            .acquire(request("pdf", "ada"))
            .await
            .unwrap();
        assert_eq!(next.release().await.unwrap(), Release::Released);
        self.stage.world.leases.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_is_sent_twice_says_that_it_was_this_one() {
    let scene = Scene::new().await;
    let world = &scene.stage.world;
    for fault in FAULTS {
        for (kind, pod, step, slot) in [
            ("soft", None, "revoke holder", SlotAfter::Free),
            ("soft", None, "unbook", SlotAfter::Free),
            (
                "hard",
                Some("pod-a"),
                "revoke holder",
                SlotAfter::WhenCleanedUp,
            ),
            ("command", None, "revoke holder", SlotAfter::WhenEnded),
        ] {
            let held = scene.held(kind, pod).await;
            let (victim, lost) = (scene.victim.clone(), held.clone());
            let revoke = async move { victim.revoke(&lost, &Decision::default()).await };
            let said = scene.hit(step, fault, revoke).await.unwrap();
            assert_eq!(said, Revoked::Now(slot), "{kind}, {step}, {fault:?}");
            assert_eq!(world.state(&held).await.unwrap(), "REVOKING");
            world.leases.check_token(&held).await.unwrap_err();
            if slot == SlotAfter::Free {
                scene.assert_next_is_served().await;
            }
            world.assert_counters_equal_holders().await;
            world.leases.cleanups().abandon(&held).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_revocation_that_is_sent_twice_has_returned_the_slot() {
    let scene = Scene::new().await;
    for fault in FAULTS {
        for step in ["force a revocation", "unbook"] {
            let held = scene.held("hard", None).await;
            let (victim, lost) = (scene.victim.clone(), held.clone());
            let force = async move { victim.force_revoke(&lost, &Decision::default()).await };
            let forced = scene.hit(step, fault, force).await.unwrap().unwrap();
            assert!(forced.cleanup.unwrap().forced);
            scene.stage.world.assert_counters_equal_holders().await;
            scene.assert_next_is_served().await;
            scene
                .stage
                .world
                .leases
                .cleanups()
                .abandon(&held)
                .await
                .unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_for_a_dead_pod_whose_outcome_is_unknown_is_an_error_and_tried_again() {
    let scene = Scene::new().await;
    let world = &scene.stage.world;
    for fault in FAULTS {
        let held = scene.held("soft", Some("pod-a")).await;
        let listed = scene
            .victim
            .held_by(&pod_id("pod-a"), 9)
            .await
            .unwrap()
            .remove(0);
        let (victim, again) = (scene.victim.clone(), listed.clone());
        let revoke = async move { victim.revoke_of_dead_pod(&listed).await };
        scene.hit("revoke holder", fault, revoke).await.unwrap_err();
        let applied = world.state(&held).await.unwrap() == "REVOKING";
        assert_eq!(
            applied,
            matches!(fault, Fault::WriteConcern(_)),
            "{fault:?}"
        );
        let revoked = scene.victim.revoke_of_dead_pod(&again).await.unwrap();
        assert_eq!(revoked, !applied);
        scene.assert_next_is_served().await;
        world.leases.cleanups().abandon(&held).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_outcome_is_unknown_keeps_others_away_for_a_minute_at_most() {
    let scene = Scene::new().await;
    let world = &scene.stage.world;
    for fault in FAULTS {
        let token = scene.exclusive().await;
        let (cleanups, wanted) = (scene.victim.cleanups(), token.clone());
        let claiming = async move { cleanups.claim(&wanted, &cleaner()).await };
        scene
            .hit("claim a clean-up", fault, claiming)
            .await
            .unwrap_err();
        if matches!(fault, Fault::WriteConcern(_)) {
            assert!(claim(&world.leases, &token).await.is_none());
            world.age_cleanup(&token, CLAIM_OVER).await;
        }
        let cleanup = claim(&world.leases, &token).await.unwrap();
        assert!(cleanup.finish().await.unwrap());
        scene.assert_free(&token, fault).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_is_sent_twice_is_one_and_gives_the_slot_back() {
    let scene = Scene::new().await;
    for fault in FAULTS {
        for step in ["finish revocation", "unbook"] {
            let cleanup = scene.claimed().await;
            let token = cleanup.revocation.token.clone();
            let finished = scene.hit(step, fault, cleanup.finish()).await;
            assert!(finished.unwrap(), "{step}, {fault:?}");
            scene.assert_free(&token, fault).await;
        }
        for step in ["abandon a clean-up", "unbook"] {
            let token = scene.exclusive().await;
            let (cleanups, given_up) = (scene.victim.cleanups(), token.clone());
            let abandon = async move { cleanups.abandon(&given_up).await };
            assert!(
                scene.hit(step, fault, abandon).await.unwrap(),
                "{step}, {fault:?}"
            );
            scene.assert_free(&token, fault).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_written_though_the_store_takes_longer_than_any_one_answer_may() {
    let scene = Scene::new().await;
    // Longer than the few seconds that every other operation has, at a pause of 400 ms between two tries.
    const TRIES: i32 = 20;
    const LOCK_TIMEOUT: i32 = 24;
    for command in ["findAndModify", "update"] {
        let cleanup = scene.claimed().await;
        let token = cleanup.revocation.token.clone();
        let away = FailCommand::on(&[command]).error_code(LOCK_TIMEOUT);
        let away = scene.stage.fail(away.times(TRIES)).await;
        assert!(cleanup.finish().await.unwrap(), "{command}");
        away.off().await.unwrap();
        scene.assert_free(&token, command).await;
    }
    let cleanup = scene.claimed().await;
    let token = cleanup.revocation.token.clone();
    let away = FailCommand::on(&["update"]).error_code(LOCK_TIMEOUT);
    let away = scene.stage.fail(away.times(TRIES)).await;
    cleanup.failed("stuck", false).await.unwrap();
    away.off().await.unwrap();
    let shown = scene.stage.world.leases.views().holder(&token).await;
    let shown = shown.unwrap().unwrap().cleanup.unwrap();
    assert_eq!(shown.last_error.as_deref(), Some("stuck"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_noted_of_a_clean_up_is_noted_though_the_first_sending_failed() {
    let scene = Scene::new().await;
    let world = &scene.stage.world;
    for fault in FAULTS {
        let mut cleanup = scene.claimed().await;
        let token = cleanup.revocation.token.clone();
        let renew = async move { (cleanup.renew().await, cleanup) };
        let (renewed, cleanup) = scene.hit("renew a claim", fault, renew).await;
        assert!(renewed.unwrap(), "{fault:?}");

        let failed = async move { cleanup.failed("stuck", false).await };
        scene
            .hit("note a failed clean-up", fault, failed)
            .await
            .unwrap();
        let shown = world.leases.views().holder(&token).await.unwrap().unwrap();
        let shown = shown.cleanup.unwrap();
        assert_eq!(
            (shown.attempts, shown.last_error.as_deref()),
            (1, Some("stuck"))
        );
        assert_eq!(shown.claimed_by, None);

        let (cleanups, again) = (scene.victim.cleanups(), token.clone());
        let retry = async move { cleanups.retry(&again).await };
        assert!(scene.hit("retry a clean-up", fault, retry).await.unwrap());
        let cleanup = claim(&scene.victim, &token).await.unwrap();
        assert!(cleanup.finish().await.unwrap());
        scene.assert_free(&token, fault).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_says_twice_that_it_has_ended_is_heard() {
    let scene = Scene::new().await;
    let world = &scene.stage.world;
    for fault in FAULTS {
        let lease = scene
            .victim
            .acquire(request_by("hard", None, "ada"))
            .await
            .unwrap();
        let token = token(&lease);
        world
            .leases
            .revoke(&token, &Decision::default())
            .await
            .unwrap();
        let ended = async move { lease.release().await };
        let said = scene.hit("confirm the end", fault, ended).await.unwrap();
        assert_eq!(said, Release::AlreadyReleased, "{fault:?}");
        let cleanup = claim(&world.leases, &token).await.unwrap();
        assert!(cleanup.finish().await.unwrap());
        scene.assert_free(&token, fault).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_no_lease_of_a_pod_is_lost_or_found_to_be() {
    let scene = Scene::new().await;
    let acquire = async |who| {
        let lease = request_by("soft", Some("pod-a"), who);
        scene.victim.acquire(lease).await.unwrap()
    };
    let (held, reaped) = (acquire("ada").await, acquire("bob").await);
    let world = &scene.stage.world;
    world
        .leases
        .revoke(&token(&reaped), &Decision::default())
        .await
        .unwrap();
    for away in [
        FailCommand::on(&["aggregate"]),
        FailCommand::on(&["update"]),
    ] {
        let guard = scene.stage.fail(away.close_connection()).await;
        let asked = tokio::time::timeout(Duration::from_secs(20), scene.victim.lost_here());
        asked.await.unwrap().unwrap_err();
        guard.off().await.unwrap();
    }
    let lost = scene.victim.lost_here().await.unwrap();
    assert_eq!((lost.len(), &lost[0].token), (1, &token(&reaped)));
    held.check().await.unwrap();
}
