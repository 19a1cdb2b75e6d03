//! A lease is revoked because somebody decided so, and only the lease that was meant.

use std::time::Duration;

use lease_shared::{
    CheckError, CleanupPhase, Decision, HolderState, Lease, Phase, Release, RevocationReason,
    Revoked, SlotAfter,
};
use mongodb::bson::{Bson, doc};

use crate::support::{
    World, in_revocation, lease_type, pod_id, reached, request, request_by, token,
};

async fn world() -> World {
    let world = World::new().await;
    let body = "levels: { user: 1, global: 1 }\nttlSeconds: 60";
    world.define("pdf", body).await;
    world
}

async fn lease(world: &World, kind: &str, pod: Option<&str>) -> Lease {
    let request = request_by(kind, pod, "ada");
    world.leases.acquire(request).await.unwrap()
}

fn anybodys() -> Decision {
    Decision::default()
}

fn tenants(tenant: &str) -> Decision {
    Decision {
        tenant: Some(tenant.to_owned()),
        ..Decision::default()
    }
}

fn pods(pod: &str) -> Decision {
    Decision {
        pod: Some(pod_id(pod)),
        ..Decision::default()
    }
}

/// It is lost, and its holder is told that an operator did it.
async fn assert_revoked(lease: &Lease) {
    match lease.check().await {
        Err(CheckError::Lost(lost)) => assert_eq!(lost.reason, Some(RevocationReason::Revoke)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_where_the_slot_is_and_the_second_one_that_it_was_not_the_first() {
    for (kind, pod, slot, in_use, told) in [
        ("soft", None, SlotAfter::Free, 0, 1),
        ("soft", Some("pod-a"), SlotAfter::Free, 0, 1),
        ("hard", None, SlotAfter::WhenEnded, 1, 1),
        ("hard", Some("pod-a"), SlotAfter::WhenCleanedUp, 1, 1),
        ("command", None, SlotAfter::WhenEnded, 1, 0),
    ] {
        let world = world().await;
        let lease = lease(&world, kind, pod).await;
        let token = token(&lease);
        let anybodys = anybodys();
        let revoke = || world.leases.revoke(&token, &anybodys);
        assert_eq!(revoke().await.unwrap(), Revoked::Now(slot), "{kind}");
        assert_revoked(&lease).await;
        assert_eq!(world.in_use().await["pdf|global|"], in_use, "{kind}");
        assert_eq!(revoke().await.unwrap(), Revoked::Already(slot), "{kind}");
        let told_of = world.listener.revocations.lock().unwrap().len();
        assert_eq!(told_of, told, "{kind}");
        // It is due at once, unless its holder is out of reach.
        let types = ["soft", "hard"].map(lease_type);
        let cleanups = world.leases.cleanups();
        let due = cleanups.due(&types, 9);
        let at_once = kind == "soft" || pod.is_some();
        assert_eq!(due.await.unwrap().len(), usize::from(at_once), "{kind}");
        world.assert_counters_equal_holders().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_command_is_finished_with_its_revocation() {
    let world = world().await;
    let lease = lease(&world, "command", None).await;
    let token = token(&lease);
    world.age(&token, Duration::from_secs(61)).await;
    let revoked = world.leases.revoke(&token, &anybodys()).await.unwrap();
    assert_eq!(revoked, Revoked::Now(SlotAfter::Free));
    assert_eq!(world.state(&token).await, None);
    assert_eq!(world.in_use().await["pdf|global|"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_not_held_is_not_revoked() {
    let world = world().await;
    let lease = lease(&world, "soft", None).await;
    let token = token(&lease);
    let pending = doc! { "$set": { "state": "PENDING" } };
    world.set(&token, pending).await;
    let anybodys = anybodys();
    let revoke = || world.leases.revoke(&token, &anybodys);
    assert_eq!(revoke().await.unwrap(), Revoked::StillAcquiring);
    assert_eq!(world.state(&token).await.unwrap(), "PENDING");
    assert_eq!(lease.release().await.unwrap(), Release::Released);
    assert_eq!(revoke().await.unwrap(), Revoked::NotHeld);
    assert!(world.listener.revocations.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_lease_is_none_and_anothers_pods_is_named_whatever_its_state() {
    let world = world().await;
    let lease = lease(&world, "hard", Some("pod-a")).await;
    let token = token(&lease);
    for state in [
        doc! { "$set": { "state": "PENDING" } },
        doc! { "$set": { "state": "HELD" } },
        in_revocation("idle"),
    ] {
        world.set(&token, state).await;
        let before = world.holder(&token).await;
        let refused = world.leases.revoke(&token, &tenants("umbrella")).await;
        assert_eq!(refused.unwrap(), Revoked::NotHeld);
        let both = Decision {
            tenant: Some("umbrella".to_owned()),
            ..pods("pod-b")
        };
        let refused = world.leases.revoke(&token, &both).await;
        assert_eq!(refused.unwrap(), Revoked::NotHeld, "nor is its pod told");
        let refused = world.leases.revoke(&token, &pods("pod-b")).await;
        let holder = Some("pod-a".to_owned());
        assert_eq!(refused.unwrap(), Revoked::OtherPod(holder));
        for decision in [tenants("umbrella"), pods("pod-b")] {
            let forced = world.leases.force_revoke(&token, &decision).await;
            assert!(forced.unwrap().is_none());
        }
        assert_eq!(world.holder(&token).await, before);
    }
    world
        .set(&token, doc! { "$set": { "state": "HELD" } })
        .await;
    let own = Decision {
        tenant: Some("acme".to_owned()),
        ..pods("pod-a")
    };
    let revoked = world.leases.revoke(&token, &own).await.unwrap();
    assert_eq!(revoked, Revoked::Now(SlotAfter::WhenCleanedUp));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_without_a_pod_is_not_the_pods_that_was_meant() {
    let world = world().await;
    let lease = lease(&world, "soft", None).await;
    let refused = world.leases.revoke(&token(&lease), &pods("pod-a")).await;
    assert_eq!(refused.unwrap(), Revoked::OtherPod(None));
    lease.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_operator_says_is_kept_to_the_letter() {
    for force in [false, true] {
        let world = world().await;
        let lease = lease(&world, "soft", None).await;
        let token = token(&lease);
        let decision = Decision {
            note: Some("$ttlSeconds".to_owned()),
            ..Decision::default()
        };
        if force {
            let forced = world.leases.force_revoke(&token, &decision).await;
            forced.unwrap().unwrap();
        } else {
            world.leases.revoke(&token, &decision).await.unwrap();
        }
        let shown = world.leases.views().holder(&token).await.unwrap().unwrap();
        let cleanup = shown.cleanup.unwrap();
        assert_eq!(cleanup.note.as_deref(), Some("$ttlSeconds"));
        assert_eq!(
            (cleanup.phase, cleanup.forced),
            (CleanupPhase::Waiting, force)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_one_gives_its_slot_back_at_once_whatever_it_was() {
    for kind in ["soft", "hard", "command"] {
        for (pod, revoked_before) in [(None, false), (None, true), (Some("pod-a"), false)] {
            let world = world().await;
            let lease = lease(&world, kind, pod).await;
            let token = token(&lease);
            if revoked_before {
                world.leases.revoke(&token, &anybodys()).await.unwrap();
            }
            let anybodys = anybodys();
            let force = || world.leases.force_revoke(&token, &anybodys);
            for _ in 0..2 {
                let forced = force().await.unwrap().unwrap();
                assert_eq!(forced.state, HolderState::Revoking);
                assert!(forced.cleanup.unwrap().forced);
                assert_eq!(world.in_use().await["pdf|global|"], 0, "{kind}");
                assert_revoked(&lease).await;
            }
            let next = world.leases.acquire(request("pdf", "ada")).await.unwrap();
            // What its late release, a sweep and a reconcile do is no harm to the next.
            let released = lease.release().await.unwrap();
            assert_eq!(released, Release::AlreadyReleased);
            world.leases.sweep().await;
            let report = world.leases.reconciler().reconcile(false).await.unwrap();
            assert_eq!((report.orphans, report.drift), (vec![], vec![]));
            next.check().await.unwrap();
            assert_eq!(world.in_use().await["pdf|global|"], 1);
            // The clean-up is still to be done, but for a command that has ended.
            let left = if kind == "command" {
                None
            } else {
                Some("REVOKING")
            };
            assert_eq!(world.state(&token).await.as_deref(), left, "{kind}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_one_that_was_being_revoked_keeps_why_since_when_and_how_often_it_was_tried() {
    let world = world().await;
    let lease = lease(&world, "hard", Some("pod-a")).await;
    let token = token(&lease);
    world.set(&token, in_revocation("idle")).await;
    let tried = doc! { "$set": { "revocation.attempts": 7_i64, "revocation.lastError": "stuck" } };
    world.set(&token, tried).await;
    let before = world.holder(&token).await.unwrap();
    world
        .leases
        .force_revoke(&token, &anybodys())
        .await
        .unwrap()
        .unwrap();
    let mut expected = before.get_document("revocation").unwrap().clone();
    expected.insert("forced", true);
    let after = world.holder(&token).await.unwrap();
    assert_eq!(after.get_document("revocation").unwrap(), &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_not_there_or_still_being_acquired_cannot_be_forced() {
    let world = world().await;
    let lease = lease(&world, "hard", None).await;
    let token = token(&lease);
    let pending = doc! { "$set": { "state": "PENDING" } };
    world.set(&token, pending).await;
    let anybodys = anybodys();
    let force = || world.leases.force_revoke(&token, &anybodys);
    assert!(force().await.unwrap().is_none());
    assert_eq!(world.in_use().await["pdf|global|"], 1);
    lease.release().await.unwrap();
    assert!(force().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_one_whose_slot_was_not_returned_is_found_by_a_reconcile() {
    let world = world().await;
    let lease = lease(&world, "hard", None).await;
    let victim = world.another_service().await;
    let gate = victim.failpoints().pause("unbook", Phase::Before);
    let token = token(&lease);
    let force =
        tokio::spawn(async move { victim.force_revoke(&token, &Decision::default()).await });
    reached(&gate, "its gate").await;
    let report = world.leases.reconciler().reconcile(false).await.unwrap();
    assert_eq!(report.orphans.len(), 2);
    gate.open();
    force.await.unwrap().unwrap().unwrap();
    world.assert_counters_equal_holders().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_document_is_forced_and_given_up_though_it_cannot_be_shown() {
    let world = world().await;
    let lease = lease(&world, "hard", None).await;
    let token = token(&lease);
    let broken = doc! { "$set": { "ttlSeconds": Bson::Null } };
    world.set(&token, broken).await;
    let forced = world.leases.force_revoke(&token, &anybodys()).await;
    forced.unwrap_err();
    assert!(matches!(lease.check().await, Err(CheckError::Lost(_))));
    assert!(world.leases.cleanups().abandon(&token).await.unwrap());
    assert_eq!(world.state(&token).await, None);
    assert_eq!(world.in_use().await["pdf|global|"], 0);
}
