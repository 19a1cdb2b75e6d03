//! Every row of the dispatch matrix, with real pods.

use crate::fleet::{Answer, Fleet, Plug, token};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_pod_held_outside_itself_is_cleaned_up_by_a_survivor() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let (mut dead, _survivor) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    let lease = token(
        fleet
            .lease("ada", Some(&dead), false, &plug.url("/a"))
            .await,
    );
    dead.kill();
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_died_with_its_pod_needs_no_handler() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let (mut dead, _survivor) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    let lease = token(fleet.lease("ada", Some(&dead), true, &plug.url("/a")).await);
    dead.kill();
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 0);
}
