//! What dead pods hold.

use std::time::Duration;

use mongodb::bson::doc;
use rustix::process::Signal;
use test_mongo::eventually;

use crate::asking::{metric, sweep};
use crate::fleet::{Answer, Fleet, Plug, PodOptions, SOON, token};

#[tokio::test(flavor = "multi_thread")]
async fn pod_started_again_under_its_name_keeps_what_it_holds_and_loses_what_its_old_process_held()
{
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let (mut killed, survivor) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    let old = token(
        fleet
            .lease("ada", Some(&killed), false, &plug.url("/old"))
            .await,
    );
    killed.kill();
    let again = fleet.pod("a").await;
    assert_ne!(again.id, killed.id);
    let new = token(
        fleet
            .lease("bob", Some(&again), false, &plug.url("/new"))
            .await,
    );
    eventually("the old one's is reaped", SOON, async || {
        Ok(fleet.holder(&old).await.is_none() && fleet.booked().await == 1)
    })
    .await
    .unwrap();
    sweep(&survivor).await;
    assert_eq!(fleet.state(&new).await, "HELD");
    assert_eq!((plug.calls("/old").begun, plug.calls("/new").begun), (1, 0));
    let mut reaped = 0.0;
    for pod in [&again, &survivor] {
        let here = metric(pod, r#"vance_lease_reap{reason="pod"}"#).await;
        reaped += here.unwrap_or_default();
    }
    assert_eq!(reaped, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_is_late_but_not_stale_loses_nothing() {
    let fleet = Fleet::new().await;
    let patient = PodOptions::with(&["--stale=1h"]);
    let (late, sweeping) = tokio::join!(fleet.pod_with("a", patient), fleet.pod("b"));
    let lease = token(
        fleet
            .lease("ada", Some(&late), true, "http://127.0.0.1:1")
            .await,
    );
    late.pause();
    // As if it had been silent for almost its time, to a pod that would know of its death by now.
    fleet.silence(&late, Duration::from_secs(3500)).await;
    let report = sweep(&sweeping).await;
    assert_eq!((report.pod, report.waiting), (0, None));
    assert_eq!(fleet.state(&lease).await, "HELD");
    late.resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_stopped_in_good_order_leaves_what_it_could_not_release_to_the_next_sweep() {
    let fleet = Fleet::new().await;
    let (mut stopped, _survivor) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    let lease = token(
        fleet
            .lease("ada", Some(&stopped), true, "http://127.0.0.1:1")
            .await,
    );
    stopped.signal(Signal::TERM);
    assert!(stopped.ended(SOON).await.success());
    let row = doc! { "_id": stopped.id.as_str(), "status": "STOPPED" };
    assert!(fleet.pods().find_one(row).await.unwrap().is_some());
    fleet.gone(&lease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_a_pod_without_a_row_are_reaped() {
    let fleet = Fleet::new().await;
    let pod = fleet.pod("a").await;
    let lease = token(
        fleet
            .lease("ada", Some(&pod), true, "http://127.0.0.1:1")
            .await,
    );
    let nobody = doc! { "$set": { "pod": "nobody" } };
    fleet.holders().update_one(doc! {}, nobody).await.unwrap();
    fleet.gone(&lease).await;
}
