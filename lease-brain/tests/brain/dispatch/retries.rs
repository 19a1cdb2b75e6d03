//! Handlers that do not succeed.

use std::time::Duration;

use lease_shared::{AcquireError, Lease};
use mongodb::bson::doc;
use test_mongo::eventually;

use crate::fleet::{Actor, Answer, Fleet, Plug, SOON, token};

#[tokio::test(flavor = "multi_thread")]
async fn clean_up_that_failed_ten_times_is_shown_as_failed_until_it_succeeds() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(500)).await;
    let pod = fleet.pod("a").await;
    let lease = token(fleet.lease("ada", Some(&pod), false, &plug.url("/a")).await);
    pod.revoke(&lease).await;
    for times in [1, 2, 9, 10] {
        let revocation = fleet.failed(&lease, times).await;
        let pause = fleet.pause(&revocation).await;
        let expected = match times {
            1 | 2 => 0..3,
            9 => 400..751,
            _ => 2600..4501,
        };
        assert!(expected.contains(&pause.as_secs()), "{times}: {pause:?}");
        assert_eq!(revocation.get_bool("failed").unwrap(), times == 10);
        if times == 2 {
            // The next six are like these.
            let eight = doc! { "$set": { "revocation.attempts": 8_i64 } };
            fleet.holders().update_one(doc! {}, eight).await.unwrap();
        }
        if times < 10 {
            fleet.age_cleanups(Duration::from_secs(800)).await;
        }
    }
    assert_eq!(plug.calls("/a").begun, 4);
    assert_eq!(fleet.leases.views().totals().await.unwrap().failed, 1);
    let error = fleet.revocation(&lease).await;
    assert!(
        error.get_str("lastError").unwrap().contains("500"),
        "{error}"
    );
    // An hour later it is tried by itself; it stays failed.
    fleet.age_cleanups(Duration::from_secs(4600)).await;
    let revocation = fleet.failed(&lease, 11).await;
    assert!(revocation.get_bool("failed").unwrap());
    // An operator's word is a fresh start.
    assert!(fleet.leases.cleanups().retry(&lease).await.unwrap());
    eventually("it is tried anew", SOON, async || {
        Ok(plug.calls("/a").begun == 6)
    })
    .await
    .unwrap();
    let revocation = fleet.failed(&lease, 1).await;
    assert!(!revocation.get_bool("failed").unwrap());
    plug.answer(Answer::Status(200));
    assert!(fleet.leases.cleanups().retry(&lease).await.unwrap());
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").most_at_once, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_is_a_failure_and_takes_no_place() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let actor = Actor::start(&fleet, "a").await;
    let pod = Some(&actor.pod.id);
    let mut panicking = Vec::new();
    // More than there are places.
    for user in 0..20 {
        let payload = doc! { "panics": true };
        let user = format!("u{user}");
        let lease = fleet.lease_of("probe", &user, pod, true, payload).await;
        fleet.revoke(&lease).await;
        panicking.push(lease);
    }
    for lease in &panicking {
        let revocation = fleet.failed(lease, 1).await;
        let error = revocation.get_str("lastError").unwrap();
        assert!(error.contains("panic"), "{error}");
    }
    fleet.failed(&panicking[0], 2).await;
    let payload = doc! { "url": plug.url("/a") };
    let good = fleet.lease_of("probe", "ada", pod, true, payload).await;
    fleet.revoke(&good).await;
    fleet.gone_alone(&good).await;
    assert_eq!(plug.calls("/a").begun, 1);
    assert_eq!(
        fleet.booked().await,
        0,
        "slots of a probe come back at once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_up_that_takes_longer_than_everything_else_runs_once_and_keeps_its_slot() {
    let fleet = Fleet::new().await;
    fleet
        .define("bench", "levels: { user: 1 }\nttlSeconds: 1\nwaitMs: 0")
        .await;
    let plug = Plug::new(Answer::Hang).await;
    let (a, _b) = tokio::join!(fleet.pod("a"), fleet.pod("b"));
    let lease = token(fleet.lease("ada", Some(&a), true, &plug.url("/a")).await);
    plug.called("/a", 1).await;
    let revoked = fleet
        .revocation(&lease)
        .await
        .get_datetime("at")
        .unwrap()
        .timestamp_millis();
    eventually("three times to live and many sweeps", SOON, async || {
        Ok(fleet.now().await > revoked + 3000)
    })
    .await
    .unwrap();
    let busy = fleet.busy("ada").await;
    assert!(busy.contains("1 of these await their clean-up"), "{busy}");
    assert_eq!(plug.calls("/a").begun, 1);
    plug.answer_call("/a", 1, Answer::Status(503));
    plug.called("/a", 2).await;
    let busy = fleet.busy("ada").await;
    assert!(
        busy.contains("last error") && busy.contains("503"),
        "{busy}"
    );
    plug.answer(Answer::Status(200));
    fleet.gone(&lease).await;
    let next: Lease = fleet.lease("ada", Some(&a), true, &plug.url("/next")).await;
    assert_ne!(next.token(), Some(&lease));
    let calls = plug.calls("/a");
    assert_eq!((calls.begun, calls.most_at_once), (2, 1));
}

impl Fleet {
    /// How long it is until the next try.
    async fn pause(&self, revocation: &mongodb::bson::Document) -> Duration {
        let next = revocation
            .get_datetime("nextTryAt")
            .unwrap()
            .timestamp_millis();
        let left = next - self.now().await;
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    /// What an acquire is told that must not succeed.
    async fn busy(&self, user: &str) -> String {
        match self.try_lease(user).await {
            Err(AcquireError::Busy(busy)) => busy.to_string(),
            other => panic!("expected it to be busy: {other:?}"),
        }
    }
}
