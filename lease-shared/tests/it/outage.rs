//! The server fails at one command of an acquire, a check or a release: the answer is a success that is true, or an
//! error in time, and no slot is left to nobody.

use std::time::Duration;

use lease_shared::{Lease, LeaseRef, LeaseRequest, LeaseService, LeaseType, Release, Tenancy};
use mongodb::bson::doc;

use crate::fault::{FAULTS, hit_once};
use crate::stage::{
    ACQUIRE_LIMIT, Stage, USE_LIMIT, assert_all_comes_free, assert_truly_held, assert_within_caps,
    only_these_stay,
};
use crate::support::{request, token};

async fn acquire(leases: LeaseService) -> Lease {
    leases.acquire(request("pdf", "ada")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_fault_at_any_command_of_acquire_is_ridden_out_and_leaves_nothing_else() {
    let stage = Stage::new(2).await;
    let victim = stage.victim().await;
    for fault in FAULTS {
        for step in ["open holder", "book counters", "mark held"] {
            let work = acquire(victim.clone());
            let (lease, took) = hit_once(&stage, &victim, step, fault, work).await;
            assert!(took < ACQUIRE_LIMIT, "{fault:?} at {step}: {took:?}");
            assert_truly_held(&stage.world, &token(&lease)).await;
            only_these_stay(&stage.world, &[token(&lease)]).await;
            assert_eq!(lease.release().await.unwrap(), Release::Released);
            victim.close().await;
        }
    }
    assert_all_comes_free(&stage.world, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_fault_at_check_or_release_is_ridden_out_and_the_slots_come_back() {
    let stage = Stage::new(2).await;
    let victim = stage.victim().await;
    for fault in FAULTS {
        let lease = victim.acquire(request("pdf", "ada")).await.unwrap();
        let held = token(&lease);
        let checking = async move { (lease.check().await, lease) };
        let ((checked, lease), took) =
            hit_once(&stage, &victim, "touch holder", fault, checking).await;
        assert!(took < USE_LIMIT, "{fault:?}: {took:?}");
        checked.unwrap();
        assert_truly_held(&stage.world, &held).await;

        for step in ["take holder", "unbook"] {
            let lease = match step {
                "unbook" => victim.acquire(request("pdf", "bob")).await.unwrap(),
                _ => victim.acquire(request("pdf", "eve")).await.unwrap(),
            };
            let releasing = async move { (lease.release().await, lease) };
            let ((released, lease), took) = hit_once(&stage, &victim, step, fault, releasing).await;
            assert!(took < USE_LIMIT, "{fault:?} at {step}: {took:?}");
            assert_eq!(released.unwrap(), Release::Released, "{fault:?} at {step}");
            only_these_stay(&stage.world, std::slice::from_ref(&held)).await;
            assert_eq!(lease.release().await.unwrap(), Release::AlreadyReleased);
        }
        assert_within_caps(&stage.world).await;
        assert_eq!(lease.release().await.unwrap(), Release::Released);
        victim.close().await;
    }
    assert_all_comes_free(&stage.world, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_fault_when_a_revoked_command_says_it_has_ended_still_frees_its_slots() {
    let stage = Stage::new(2).await;
    let victim = stage.victim().await;
    for fault in FAULTS {
        let command = LeaseRequest::builder()
            .lease_type(LeaseType::command())
            .lease(LeaseRef::named("pdf").unwrap())
            .tenancy(Tenancy::new("acme", "thesis", "ada").unwrap())
            .wait(Duration::ZERO)
            .build();
        let lease = victim.acquire(command).await.unwrap();
        // An operator has revoked it; its slot stays booked until the command has ended.
        let revoked = doc! { "$set": { "state": "REVOKING" } };
        let holder = doc! { "_id": token(&lease).as_str() };
        let holders = stage.world.holders();
        holders.update_one(holder, revoked).await.unwrap();
        let ended = async move { lease.release().await.unwrap() };
        let (_, took) = hit_once(&stage, &victim, "finish command", fault, ended).await;
        assert!(took < USE_LIMIT, "{fault:?}: {took:?}");
        only_these_stay(&stage.world, &[]).await;
        victim.close().await;
    }
    assert_all_comes_free(&stage.world, 2).await;
}
