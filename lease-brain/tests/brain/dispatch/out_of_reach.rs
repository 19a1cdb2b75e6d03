//! The holder's pod is alive, and does not answer as it should.

use std::time::Duration;

use lease_brain::api::Problem;
use lease_shared::LeaseToken;
use mongodb::bson::{DateTime, doc};
use tokio::net::TcpListener;

use super::proxy::Proxy;
use crate::fleet::{Answer, Fleet, Plug, Pod, PodOptions, StandIn, token};

const INTERNAL: &str = "/internal/lease/revoked";

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_outside_a_pod_that_cannot_be_reached_is_cleaned_up_elsewhere() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let stand_in = StandIn::out_of_reach(&fleet).await;
    let (a, b, c) = tokio::join!(fleet.pod("a"), fleet.pod("b"), fleet.pod("c"));
    let payload = doc! { "url": plug.url("/a") };
    let lease = fleet
        .lease_of("webhook", "ada", Some(&stand_in.id), false, payload)
        .await;
    a.revoke(&lease).await;
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 1);
    assert_eq!(a.handled().await + b.handled().await + c.handled().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_outside_a_pod_that_refuses_the_call_is_cleaned_up_elsewhere() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let without = PodOptions {
        no_secret: true,
        ..PodOptions::with(&["--stale=60s"])
    };
    let (a, b, c) = tokio::join!(fleet.pod("a"), fleet.pod_with("b", without), fleet.pod("c"));
    let lease = token(fleet.lease("ada", Some(&b), false, &plug.url("/a")).await);
    b.pause();
    a.revoke(&lease).await;
    let by = fleet.claimed(&lease).await;
    let (asking, other) = match by == a.id.as_str() {
        true => (&a, &c),
        false => (&c, &a),
    };
    assert_eq!(by, asking.id.to_string());
    b.resume();
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 1);
    assert_eq!((asking.handled().await, other.handled().await), (1, 0));
    assert_eq!(b.handled().await, 0);
    assert!(asking.log().contains(Problem::FORBIDDEN), "it was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_whose_answer_is_lost_on_the_way_is_asked_again_and_does_not_run_again() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let proxy = Proxy::new().await;
    let advertise = format!("--advertise={}", proxy.endpoint);
    let behind = PodOptions::with(&[&advertise]);
    let (a, b, c) = tokio::join!(fleet.pod("a"), fleet.pod_with("b", behind), fleet.pod("c"));
    proxy.pass_to(&b.bound());
    proxy.lose_answers(3);
    let lease = token(fleet.lease("ada", Some(&b), false, &plug.url("/a")).await);
    a.revoke(&lease).await;
    fleet.gone(&lease).await;
    proxy.connected(4).await;
    assert_eq!(plug.calls("/a").begun, 1);
    assert_eq!(b.handled().await, 1);
    assert_eq!(a.handled().await + c.handled().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_in_a_living_pod_is_left_to_it_until_it_does_it() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    plug.answer_path(INTERNAL, Answer::Status(500));
    let stand_in = StandIn::at(&fleet, &plug.url("")).await;
    let (a, b, c) = tokio::join!(fleet.pod("a"), fleet.pod("b"), fleet.pod("c"));
    let payload = doc! { "url": plug.url("/a") };
    let lease = fleet
        .lease_of("webhook", "ada", Some(&stand_in.id), true, payload)
        .await;
    a.revoke(&lease).await;
    let revocation = fleet.failed(&lease, 2).await;
    assert!(revocation.get_bool("waitsForPod").unwrap());
    let error = revocation.get_str("lastError").unwrap();
    assert!(
        error.contains("500") && error.contains(stand_in.id.as_str()),
        "{error}"
    );
    assert_eq!(fleet.booked().await, 1, "it is still in use");
    plug.play(&stand_in.id);
    plug.answer_path(INTERNAL, Answer::Status(204));
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 0);
    assert_eq!(a.handled().await + b.handled().await + c.handled().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_in_a_pod_that_was_asked_in_vain_is_gone_as_soon_as_that_is_dead() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let stand_in = StandIn::out_of_reach(&fleet).await;
    let payload = doc! { "url": plug.url("/a") };
    let lease = fleet
        .lease_of("webhook", "ada", Some(&stand_in.id), true, payload)
        .await;
    fleet.revoke(&lease).await;
    // The tenth try in vain is followed by a pause of an hour.
    let nine = doc! { "$set": { "revocation.attempts": 9_i64 } };
    fleet.holders().update_one(doc! {}, nine).await.unwrap();
    let _pods = tokio::join!(fleet.pod("a"), fleet.pod("b"), fleet.pod("c"));
    let revocation = fleet.failed(&lease, 10).await;
    assert!(revocation.get_bool("failed").unwrap());
    stand_in.die();
    fleet.gone(&lease).await;
    assert_eq!(plug.all().begun, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pods_own_handler_did_not_do_is_gone_as_soon_as_that_pod_is_dead() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(500)).await;
    let mut a = fleet.pod("a").await;
    let lease = token(fleet.lease("ada", Some(&a), true, &plug.url("/a")).await);
    // The tenth try in vain is followed by a pause of an hour.
    let nine = doc! { "reason": "revoke", "at": "$$NOW", "attempts": 9_i64, "nextTryAt": "$$NOW" };
    let revoked = vec![doc! { "$set": { "state": "REVOKING", "revocation": nine } }];
    let its = doc! { "_id": lease.as_str() };
    fleet.holders().update_one(its, revoked).await.unwrap();
    let revocation = fleet.failed(&lease, 10).await;
    assert!(revocation.get_bool("failed").unwrap());
    let _b = fleet.pod("b").await;
    a.kill();
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 1);
}

/// A lease in `b`, which lives, and which the others have asked in vain so often that they wait for minutes: nothing
/// listens where it says that it does.
struct Unheard {
    a: Pod,
    b: Pod,
    c: Pod,
    lease: LeaseToken,
}

impl Unheard {
    const ASKED: i64 = 8;

    async fn new(fleet: &Fleet, plug: &Plug) -> Self {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let advertise = format!("--advertise=http://{}", closed.local_addr().unwrap());
        drop(closed);
        let wrong = PodOptions::with(&["--stale=60s", &advertise]);
        let (a, b, c) = tokio::join!(fleet.pod("a"), fleet.pod_with("b", wrong), fleet.pod("c"));
        let lease = token(fleet.lease("ada", Some(&b), true, &plug.url("/a")).await);
        // So that it is asked, and does nothing about it yet.
        b.pause();
        a.revoke(&lease).await;
        fleet.failed(&lease, 1).await;
        let before = doc! { "$set": { "revocation.attempts": Self::ASKED - 1 } };
        fleet.holders().update_one(doc! {}, before).await.unwrap();
        let revocation = fleet.failed(&lease, Self::ASKED).await;
        assert!(!revocation.get_bool("failed").unwrap());
        assert!(revocation.get_bool("unreached").unwrap());
        let next = revocation.get_datetime("nextTryAt").unwrap();
        assert!(next.timestamp_millis() > fleet.now().await + 60_000);
        b.resume();
        Self { a, b, c, lease }
    }

    /// How many handlers have ended, in `b` and in the others.
    async fn handled(&self) -> (u64, u64) {
        let others = self.a.handled().await + self.c.handled().await;
        (self.b.handled().await, others)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_nobody_can_reach_ends_itself_what_runs_in_it() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let unheard = Unheard::new(&fleet, &plug).await;
    fleet.gone(&unheard.lease).await;
    assert_eq!(plug.calls("/a").begun, 1);
    assert_eq!(unheard.handled().await, (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_that_fails_in_a_pod_that_nobody_can_reach_is_not_tried_again_before_its_time() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(500)).await;
    let unheard = Unheard::new(&fleet, &plug).await;
    let tried = fleet.failed(&unheard.lease, Unheard::ASKED + 1).await;
    let error = tried.get_str("lastError").unwrap();
    assert!(error.contains("500"), "{error}");
    // Whose clean-ups show that the pod has looked for what is left to it.
    plug.answer_path("/other", Answer::Status(200));
    for user in ["x", "y"] {
        let url = plug.url("/other");
        let other = token(fleet.lease(user, Some(&unheard.b), true, &url).await);
        fleet.revoke(&other).await;
        fleet.gone_alone(&other).await;
    }
    assert_eq!(fleet.revocation(&unheard.lease).await, tried);
    assert_eq!(plug.calls("/a").begun, 1);
    fleet.only_booked(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_in_a_pod_that_hangs_is_gone_when_that_is_killed() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let patient = PodOptions::with(&["--stale=5s"]);
    let (a, mut b, c) = tokio::join!(fleet.pod("a"), fleet.pod_with("b", patient), fleet.pod("c"));
    let lease = token(fleet.lease("ada", Some(&b), true, &plug.url("/a")).await);
    b.pause();
    a.revoke(&lease).await;
    fleet.claimed(&lease).await;
    b.kill();
    fleet.gone(&lease).await;
    assert_eq!(plug.all().begun, 0);
    assert_eq!((a.handled().await, c.handled().await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_in_a_pod_that_is_cut_off_meanwhile_has_no_other_beside_it() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let proxy = Proxy::new().await;
    let advertise = format!("--advertise={}", proxy.endpoint);
    let behind = PodOptions::with(&["--stale=60s", &advertise]);
    let (a, b, c) = tokio::join!(fleet.pod("a"), fleet.pod_with("b", behind), fleet.pod("c"));
    let lease = token(fleet.lease("ada", Some(&b), false, &plug.url("/a")).await);
    b.pause();
    a.revoke(&lease).await;
    proxy.connected(1).await;
    proxy.pass_to(&b.bound());
    b.resume();
    plug.called("/a", 1).await;
    for times in 2..=4 {
        proxy.cut();
        proxy.passed(times).await;
    }
    plug.answer(Answer::Status(200));
    fleet.gone(&lease).await;
    // Asked again when it had just ended, the pod runs it again.
    assert_eq!(plug.calls("/a").most_at_once, 1);
    assert_eq!((a.handled().await, c.handled().await), (0, 0));
    assert!(b.handled().await >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_has_ended_before_the_pod_that_asked_for_it_goes_on_without_it() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    let pod = fleet.pod("a").await;
    let lease = token(fleet.lease("ada", Some(&pod), false, &plug.url("/a")).await);
    // As another's claim that was made 37 seconds ago: it gives the pod three more.
    let now = fleet.now().await;
    let until = DateTime::from_millis(now + 23_000);
    let claim = doc! { "$set": { "state": "REVOKING", "revocation": {
        "reason": "revoke", "at": until, "attempts": 1_i64, "nextTryAt": until,
        "claim": { "id": "another's", "by": "another", "until": until },
    } } };
    fleet.holders().update_one(doc! {}, claim).await.unwrap();
    assert_eq!(
        pod.asked(&lease, "a guess").await.code,
        Problem::UNKNOWN_TOKEN
    );
    let begun = tokio::time::Instant::now();
    let asked = pod.asked(&lease, "another's").await;
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(asked.code, Problem::HANDLER_FAILED);
    plug.called("/a", 1).await;
    plug.idle("/a").await;
    // By now there is no time left.
    assert_eq!(
        pod.asked(&lease, "another's").await.code,
        Problem::UNKNOWN_TOKEN
    );
    assert_eq!(plug.calls("/a").begun, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_in_a_pod_is_not_cleaned_up_by_another_that_has_its_address() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(200)).await;
    let a = fleet.pod("a").await;
    let stand_in = StandIn::at(&fleet, &a.endpoint).await;
    let payload = doc! { "url": plug.url("/a") };
    let pod = Some(&stand_in.id);
    let lease = fleet.lease_of("webhook", "ada", pod, true, payload).await;
    fleet.revoke(&lease).await;
    let revocation = fleet.failed(&lease, 1).await;
    let error = revocation.get_str("lastError").unwrap();
    assert!(error.contains(Problem::UNKNOWN_POD), "{error}");
    stand_in.die();
    fleet.gone(&lease).await;
    assert_eq!(plug.all().begun, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_says_yes_to_everything_at_a_pods_address_has_cleaned_up_nothing() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Status(204)).await;
    let _a = fleet.pod("a").await;
    // Any other server, for example the next one that was given that port.
    let stand_in = StandIn::at(&fleet, &plug.url("")).await;
    let payload = doc! { "url": plug.url("/a") };
    let pod = Some(&stand_in.id);
    let lease = fleet.lease_of("webhook", "ada", pod, true, payload).await;
    fleet.revoke(&lease).await;
    fleet.failed(&lease, 1).await;
    assert!(fleet.holder(&lease).await.is_some());
    stand_in.die();
    fleet.gone(&lease).await;
    assert_eq!(plug.calls("/a").begun, 0);
}
