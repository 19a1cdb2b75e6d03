//! A pod stands still while it cleans up.

use std::time::Duration;

use test_mongo::eventually;

use crate::fleet::{Answer, Fleet, Plug, SOON, token};

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_wakes_over_an_old_clean_up_writes_nothing_into_that_of_another() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let (a, b) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    for (path, status) in [("/fails", 500), ("/done", 200)] {
        let lease = token(fleet.lease("ada", None, false, &plug.url(path)).await);
        fleet.age(Duration::from_secs(601)).await;
        plug.called(path, 1).await;
        let by = fleet.claimed(&lease).await;
        let (old, new) = if by == a.id.as_str() {
            (&a, &b)
        } else {
            (&b, &a)
        };
        let handled = old.handled().await;
        old.pause();
        fleet.age_cleanups(Duration::from_secs(61)).await;
        plug.called(path, 2).await;
        assert_eq!(fleet.claimed(&lease).await, new.id.to_string());
        let claimed = fleet.revocation(&lease).await;
        plug.answer_call(path, 1, Answer::Status(status));
        old.resume();
        eventually("its handler ends", SOON, async || {
            Ok(old.handled().await > handled)
        })
        .await
        .unwrap();
        // What it takes up after that, it finishes after that.
        let other = token(
            fleet
                .lease("bob", Some(old), true, &plug.url("/other"))
                .await,
        );
        plug.answer_path("/other", Answer::Status(200));
        old.revoke(&other).await;
        fleet.gone_alone(&other).await;
        assert_eq!(fleet.revocation(&lease).await, claimed, "{path}");
        fleet.only_booked(1).await;
        plug.answer(Answer::Status(200));
        fleet.gone(&lease).await;
        plug.answer(Answer::Hang);
        assert_eq!(plug.calls(path).begun, 2);
    }
}
