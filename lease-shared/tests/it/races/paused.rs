//! One process stands between two steps for longer than anything lasts, while others sweep, reconcile and take its slot.

use lease_shared::Phase::{After, Before};
use lease_shared::{LeaseRef, LeaseRequest, Tenancy};
use mongodb::bson::doc;

use super::cast::{Cast, MEANWHILES, Meanwhile, Point, RIVAL, granted, reached};
use crate::support::{lease_type, request};

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_stands_still_anywhere_leaves_one_believer() {
    const POINTS: [Point; 6] = [
        ("open holder", Before),
        ("open holder", After),
        ("book counters", Before),
        ("book counters", After),
        ("mark held", Before),
        ("mark held", After),
    ];
    for point in POINTS {
        for meanwhile in MEANWHILES {
            eprintln!("{point:?}, {meanwhile:?}");
            let cast = Cast::new().await;
            let gate = cast.paused.failpoints().pause(point.0, point.1);
            let acquire = cast.acquire_paused(RIVAL).await;
            reached(&gate, point).await;
            let rival = cast.act(meanwhile).await;
            if meanwhile != Meanwhile::Reconciled {
                assert!(rival.is_some(), "the slot of one who stands still is lost");
            }
            gate.open();
            let own = acquire.await.unwrap();
            cast.assert_believers(&[&own, &rival], 1).await;
            cast.assert_all_free(vec![own, rival]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_whose_holder_was_reaped_before_it_booked_does_not_hold() {
    for rival_comes in [true, false] {
        let cast = Cast::new().await;
        let booking = cast.paused.failpoints().pause("book counters", Before);
        let marking = cast.paused.failpoints().pause("mark held", Before);
        let acquire = cast.acquire_paused(RIVAL).await;
        reached(&booking, "book counters").await;
        cast.age_all().await;
        cast.clean_up().await;
        booking.open();
        reached(&marking, "mark held").await;
        // What it has booked by now is an orphan. It keeps nobody out, and it goes when its acquirer goes on.
        let rival = match rival_comes {
            true => cast.rival().await,
            false => None,
        };
        assert_eq!(rival.is_some(), rival_comes);
        marking.open();
        let own = acquire.await.unwrap();
        assert!(own.is_none());
        cast.assert_believers(&[&rival], usize::from(rival_comes))
            .await;
        cast.assert_all_free(vec![rival]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_goes_on_after_it_was_listed_as_stale_holds() {
    let cast = Cast::new().await;
    let marking = cast.paused.failpoints().pause("mark held", Before);
    let acquire = cast.acquire_paused(RIVAL).await;
    reached(&marking, "mark held").await;
    cast.age_all().await;
    let taking = cast
        .world
        .leases
        .failpoints()
        .pause("take stale holder", Before);
    let sweeper = cast.world.leases.clone();
    let sweep = tokio::spawn(async move { sweeper.sweep().await });
    reached(&taking, "take stale holder").await;
    marking.open();
    let own = acquire.await.unwrap();
    assert!(own.is_some());
    taking.open();
    assert_eq!(sweep.await.unwrap().stale, 0);
    let rival = cast.rival().await;
    assert!(rival.is_none());
    cast.assert_believers(&[&own], 1).await;
    cast.assert_all_free(vec![own]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_stands_still_in_its_rollback_takes_nothing_from_others() {
    const POINTS: [Point; 4] = [
        ("take holder", Before),
        ("take holder", After),
        ("unbook", Before),
        ("unbook", After),
    ];
    for point in POINTS {
        for meanwhile in MEANWHILES {
            eprintln!("{point:?}, {meanwhile:?}");
            let cast = Cast::new().await;
            // Another tenant fills the global level, so that three levels are rolled back.
            let stranger = Tenancy::new("umbrella", "x", "y").unwrap();
            let stranger = LeaseRequest::builder()
                .lease_type(lease_type("soft"))
                .lease(LeaseRef::named("pdf").unwrap())
                .tenancy(stranger)
                .build();
            let stranger = cast.world.leases.acquire(stranger).await.unwrap();
            let gate = cast.paused.failpoints().pause(point.0, point.1);
            let acquire = cast.acquire_paused(RIVAL).await;
            reached(&gate, point).await;
            stranger.release().await.unwrap();
            cast.world.leases.close().await;
            let rival = cast.act(meanwhile).await;
            if meanwhile != Meanwhile::Reconciled {
                assert!(rival.is_some(), "the slot of one who stands still is lost");
            }
            gate.open();
            let own = acquire.await.unwrap();
            let believers = usize::from(own.is_some() || rival.is_some());
            cast.assert_believers(&[&own, &rival], believers).await;
            cast.assert_all_free(vec![own, rival]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_stands_still_while_it_writes_its_payload_has_stored_it_or_lost() {
    for phase in [Before, After] {
        for meanwhile in MEANWHILES {
            eprintln!("{phase:?}, {meanwhile:?}");
            let cast = Cast::new().await;
            let own = cast.paused.acquire(request("pdf", RIVAL)).await.unwrap();
            let gate = cast.paused.failpoints().pause("write payload", phase);
            let writing = tokio::spawn(async move {
                let written = own.update_payload(doc! { "jobId": 7 }).await;
                (own, written)
            });
            reached(&gate, "write payload").await;
            let rival = cast.act(meanwhile).await;
            gate.open();
            let (own, written) = writing.await.unwrap();
            match meanwhile {
                Meanwhile::Reconciled => {
                    written.unwrap();
                    let holder = cast.world.holder(own.token().unwrap()).await.unwrap();
                    let payload = holder.get_document("payload").unwrap();
                    assert_eq!(payload, &doc! { "jobId": 7 });
                }
                // What was stored in time is the handler's.
                _ if phase == After => {
                    written.unwrap();
                    let told = cast.payload_told();
                    assert_eq!(told, doc! { "jobId": 7 });
                }
                _ => {
                    written.unwrap_err();
                    assert_eq!(cast.payload_told(), doc! {});
                }
            }
            cast.assert_believers(&[&Some(own), &rival], 1).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_releaser_that_stands_still_takes_nothing_from_the_next_holder() {
    const POINTS: [Point; 4] = [
        ("take holder", Before),
        ("take holder", After),
        ("unbook", Before),
        ("unbook", After),
    ];
    for point in POINTS {
        for meanwhile in MEANWHILES {
            eprintln!("{point:?}, {meanwhile:?}");
            let cast = Cast::new().await;
            let own = cast.paused.acquire(request("pdf", RIVAL)).await.unwrap();
            let gate = cast.paused.failpoints().pause(point.0, point.1);
            let release = tokio::spawn(async move {
                own.release().await.unwrap();
                own
            });
            reached(&gate, point).await;
            let rival = cast.act(meanwhile).await;
            // Only one that has not begun to give it back, and is not idle, may keep others out.
            let kept = meanwhile == Meanwhile::Reconciled && point == ("take holder", Before);
            assert_eq!(rival.is_none(), kept);
            gate.open();
            let own = Some(release.await.unwrap());
            cast.paused.close().await;
            cast.assert_believers(&[&own, &rival], usize::from(!kept))
                .await;
            cast.assert_all_free(vec![own, rival]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reaper_that_stands_still_takes_nothing_from_the_next_holder() {
    const FOUND: Point = ("find expired holders", After);
    const UNBOOKED: [Point; 2] = [("unbook", Before), ("unbook", After)];
    let revoke = [("revoke holder", Before), ("revoke holder", After)];
    let finish = [("finish command", Before), ("finish command", After)];
    let take = [("take stale holder", Before), ("take stale holder", After)];
    let mut points: Vec<(&str, bool, Point)> = Vec::new();
    points.extend(
        [FOUND]
            .iter()
            .chain(&revoke)
            .chain(&UNBOOKED)
            .map(|point| ("soft", false, *point)),
    );
    points.extend(
        revoke
            .iter()
            .chain(&finish)
            .chain(&UNBOOKED)
            .map(|point| ("command", false, *point)),
    );
    points.extend(
        [FOUND]
            .iter()
            .chain(&take)
            .chain(&UNBOOKED)
            .map(|point| ("soft", true, *point)),
    );
    for (kind, pending, point) in points {
        for meanwhile in [Meanwhile::SweptAndReconciled, Meanwhile::FoundByTheRival] {
            eprintln!("{kind} {pending} {point:?}, {meanwhile:?}");
            let cast = Cast::new().await;
            let request = LeaseRequest::builder()
                .lease_type(lease_type(kind))
                .lease(LeaseRef::named("pdf").unwrap())
                .tenancy(Tenancy::new("acme", "thesis", "bob").unwrap())
                .build();
            let idle = cast.world.leases.acquire(request).await.unwrap();
            if pending {
                let pending = doc! { "$set": { "state": "PENDING" } };
                let holders = cast.world.holders();
                holders.update_one(doc! {}, pending).await.unwrap();
            }
            cast.age_all().await;
            let gate = cast.paused.failpoints().pause(point.0, point.1);
            let sweeper = cast.paused.clone();
            let sweep = tokio::spawn(async move { sweeper.sweep().await });
            reached(&gate, point).await;
            let rival = cast.act(meanwhile).await;
            assert!(
                rival.is_some(),
                "a reaper that stands still keeps others out"
            );
            gate.open();
            assert!(sweep.await.unwrap().failed.is_empty());
            cast.assert_believers(&[&Some(idle), &rival], 1).await;
            cast.assert_all_free(vec![rival]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconciler_that_stands_still_takes_nothing_from_the_next_holder() {
    const POINTS: [Point; 7] = [
        ("read counters", After),
        ("look up holders", Before),
        ("look up holders", After),
        ("unbook orphans", Before),
        ("unbook orphans", After),
        ("remove empty counters", Before),
        ("remove empty counters", After),
    ];
    for point in POINTS {
        for meanwhile in MEANWHILES {
            eprintln!("{point:?}, {meanwhile:?}");
            let cast = Cast::new().await;
            let orphan = granted(cast.paused.acquire(request("pdf", RIVAL)).await).unwrap();
            cast.world.holders().delete_many(doc! {}).await.unwrap();
            let gate = cast.paused.failpoints().pause(point.0, point.1);
            let reconciler = cast.paused.clone();
            let reconcile =
                tokio::spawn(async move { reconciler.reconciler().reconcile(false).await });
            reached(&gate, point).await;
            let rival = cast.act(meanwhile).await;
            assert!(rival.is_some(), "an orphan keeps others out");
            gate.open();
            reconcile.await.unwrap().unwrap();
            cast.assert_believers(&[&Some(orphan), &rival], 1).await;
            cast.assert_all_free(vec![rival]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_stands_still_while_it_relieves_takes_nothing_from_the_next_holder() {
    const POINTS: [Point; 5] = [
        ("read counter", After),
        ("read holders", Before),
        ("read holders", After),
        ("unbook orphans", Before),
        ("unbook orphans", After),
    ];
    for point in POINTS {
        eprintln!("{point:?}");
        let cast = Cast::new().await;
        let orphan = granted(cast.world.leases.acquire(request("pdf", RIVAL)).await);
        cast.world.holders().delete_many(doc! {}).await.unwrap();
        let gate = cast.paused.failpoints().pause(point.0, point.1);
        let acquire = cast.acquire_paused(RIVAL).await;
        reached(&gate, point).await;
        let rival = cast.rival().await;
        assert!(rival.is_some(), "an orphan keeps others out");
        gate.open();
        let own = acquire.await.unwrap();
        cast.assert_believers(&[&orphan, &own, &rival], 1).await;
        cast.assert_all_free(vec![own, rival]).await;
    }
}
