//! A command was applied, but its answer says that nobody knows; before it is sent again, much happens.

use lease_shared::Phase::{After, Before};
use lease_shared::{LeaseRef, LeaseRequest, Release, Tenancy};
use mongodb::bson::doc;
use test_mongo::{FailCommand, Mongod, TestMongo};

use super::cast::{Cast, MEANWHILES, Meanwhile, RIVAL, reached};
use crate::support::{lease_type, request};

/// WriteConcernFailed: applied here, not confirmed by a majority.
fn unsure(command: &str) -> FailCommand {
    FailCommand::on(&[command])
        .times(1)
        .write_concern_error(doc! { "code": 64, "errmsg": "nobody knows" })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_acquire_that_must_be_sent_again_too_late_gives_no_second_believer() {
    // A server of its own, for it has one such fail point.
    let server = Mongod::start().await.unwrap();
    for step in ["open holder", "book counters", "mark held"] {
        for meanwhile in MEANWHILES {
            eprintln!("{step}, {meanwhile:?}");
            let cast = Cast::on(TestMongo::at(&server.uri()).await.unwrap()).await;
            let before = cast.paused.failpoints().pause(step, Before);
            let after = cast.paused.failpoints().pause(step, After);
            let acquire = cast.acquire_paused(RIVAL).await;
            reached(&before, step).await;
            let unsure = unsure("update").set(&server.uri()).await.unwrap();
            before.open();
            reached(&after, step).await;
            unsure.off().await.unwrap();
            assert_eq!(cast.world.all_holders().await.len(), 1, "it was applied");
            let rival = cast.act(meanwhile).await;
            if meanwhile != Meanwhile::Reconciled {
                assert!(rival.is_some(), "the slot of one who stands still is lost");
            }
            after.open();
            let own = acquire.await.unwrap();
            cast.assert_believers(&[&own, &rival], 1).await;
            cast.assert_all_free(vec![own, rival]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_acquire_that_is_sent_again_books_once_and_never_reuses_a_token_that_was_opened()
{
    let server = Mongod::start().await.unwrap();
    for step in ["open holder", "book counters", "mark held"] {
        let cast = Cast::on(TestMongo::at(&server.uri()).await.unwrap()).await;
        // Room for more than one, so that a second booking would not be refused.
        let roomy = "levels: { user: 3, project: 3, tenant: 3, global: 3 }";
        cast.world.define("pdf", roomy).await;
        let before = cast.paused.failpoints().pause(step, Before);
        let after = cast.paused.failpoints().pause(step, After);
        let acquire = cast.acquire_paused(RIVAL).await;
        reached(&before, step).await;
        let unsure = unsure("update").set(&server.uri()).await.unwrap();
        before.open();
        reached(&after, step).await;
        unsure.off().await.unwrap();
        let first = cast.world.all_holders().await;
        let first = first[0].get_str("_id").unwrap();
        after.open();
        let own = acquire.await.unwrap().unwrap();
        // A late second copy of the opening might come after a reaper took the first.
        let reused = own.token().unwrap().as_str() == first;
        assert_eq!(reused, step != "open holder", "{step}");
        cast.paused.close().await;
        assert_eq!(cast.world.all_holders().await.len(), 1, "{step}");
        cast.world.assert_counters_equal_holders().await;
        cast.assert_all_free(vec![Some(own)]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_must_be_sent_again_too_late_touches_nobody_elses_slot() {
    let server = Mongod::start().await.unwrap();
    for (step, command) in [("take holder", "findAndModify"), ("unbook", "update")] {
        for meanwhile in MEANWHILES {
            eprintln!("{step}, {meanwhile:?}");
            let cast = Cast::on(TestMongo::at(&server.uri()).await.unwrap()).await;
            let own = cast.paused.acquire(request("pdf", RIVAL)).await.unwrap();
            let before = cast.paused.failpoints().pause(step, Before);
            let after = cast.paused.failpoints().pause(step, After);
            let release = tokio::spawn(async move { own.release().await });
            reached(&before, step).await;
            let unsure = unsure(command).set(&server.uri()).await.unwrap();
            before.open();
            reached(&after, step).await;
            unsure.off().await.unwrap();
            let rival = cast.act(meanwhile).await;
            assert!(rival.is_some(), "a slot that is given back is lost");
            after.open();
            release.await.unwrap().unwrap();
            cast.paused.close().await;
            cast.assert_believers(&[&rival], 1).await;
            cast.assert_all_free(vec![rival]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_arrives_after_a_reaper_leaves_an_exclusive_slot_to_its_clean_up() {
    let server = Mongod::start().await.unwrap();
    let cast = Cast::on(TestMongo::at(&server.uri()).await.unwrap()).await;
    let exclusive = LeaseRequest::builder()
        .lease_type(lease_type("hard"))
        .lease(LeaseRef::named("pdf").unwrap())
        .tenancy(Tenancy::new("acme", "thesis", "bob").unwrap())
        .build();
    let own = cast.paused.acquire(exclusive).await.unwrap();
    let after = cast.paused.failpoints().pause("take holder", After);
    let cut = FailCommand::on(&["findAndModify"])
        .times(1)
        .close_connection()
        .set(&server.uri())
        .await
        .unwrap();
    let release = tokio::spawn(async move { own.release().await });
    reached(&after, "take holder").await;
    cut.off().await.unwrap();
    assert!(cast.act(Meanwhile::SweptAndReconciled).await.is_none());
    after.open();
    assert_eq!(
        release.await.unwrap().unwrap(),
        Release::AlreadyReleased,
        "the reaper was first"
    );
    cast.paused.close().await;
    assert_eq!(cast.world.in_use().await["pdf|global|"], 1);
    cast.world.assert_counters_equal_holders().await;
}
