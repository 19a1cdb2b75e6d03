//! More than half of the pods look dead at once.

use rustix::process::Signal;

use super::in_touch;
use crate::asking::{metric, sweep};
use crate::fleet::{Fleet, PodOptions, SOON, token};

const HELD_BACK: &str = "vance_lease_sweep_held_back";

/// Which sweeps only when it is told to.
fn idle() -> PodOptions {
    PodOptions::with(&["--reap-interval=1h"])
}

#[tokio::test(flavor = "multi_thread")]
async fn most_pods_dead_at_once_are_left_for_three_rounds_and_then_reaped() {
    let fleet = Fleet::new().await;
    let (sweeping, mut b, mut c) = tokio::join!(
        fleet.pod_with("a", idle()),
        fleet.pod_with("b", idle()),
        fleet.pod_with("c", idle())
    );
    in_touch(&fleet, &sweeping).await;
    let lease = token(
        fleet
            .lease("ada", Some(&b), true, "http://127.0.0.1:1")
            .await,
    );
    b.kill();
    c.kill();
    fleet.stale(&[&b, &c]).await;
    for round in 1..=3 {
        let report = sweep(&sweeping).await;
        let waiting = report.waiting.clone().unwrap_or_default();
        assert!(
            waiting.starts_with("2 of 3 pods look dead at once"),
            "{report:?}"
        );
        assert!(
            waiting.contains(&format!("round {round} of at most 3")),
            "{waiting}"
        );
        assert_eq!(fleet.state(&lease).await, "HELD");
        assert_eq!(metric(&sweeping, HELD_BACK).await, Some(f64::from(round)));
    }
    assert_eq!(
        sweeping
            .log()
            .matches("2 of 3 pods look dead at once")
            .count(),
        3
    );
    let report = sweep(&sweeping).await;
    assert_eq!((report.pod, report.waiting), (1, None));
    fleet.gone(&lease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolling_restart_and_a_pod_that_crashes_again_and_again_hold_nothing_back() {
    let fleet = Fleet::new().await;
    let (sweeping, mut b, mut c) = tokio::join!(
        fleet.pod_with("a", idle()),
        fleet.pod_with("b", idle()),
        fleet.pod_with("c", idle())
    );
    in_touch(&fleet, &sweeping).await;
    for pod in [&mut b, &mut c] {
        pod.signal(Signal::TERM);
        assert!(pod.ended(SOON).await.success());
    }
    // Both between two rounds.
    assert_eq!(sweep(&sweeping).await.waiting, None);
    let (mut b, _c) = tokio::join!(fleet.pod_with("b", idle()), fleet.pod_with("c", idle()));
    assert_eq!(sweep(&sweeping).await.waiting, None);
    for _ in 0..2 {
        b.kill();
        fleet.stale(&[&b]).await;
        assert_eq!(sweep(&sweeping).await.waiting, None);
        b = fleet.pod_with("b", idle()).await;
        assert_eq!(sweep(&sweeping).await.waiting, None);
    }
    assert_eq!(metric(&sweeping, HELD_BACK).await, Some(0.0));
}
