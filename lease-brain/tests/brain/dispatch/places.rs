//! Many clean-ups at a time.

use mongodb::bson::doc;

use crate::fleet::{Actor, Answer, Fleet, Plug};

#[tokio::test(flavor = "multi_thread")]
async fn type_whose_handlers_all_hang_does_not_keep_another_waiting() {
    let fleet = Fleet::new().await;
    let plug = Plug::new(Answer::Hang).await;
    plug.answer_path("/quick", Answer::Status(200));
    let actor = Actor::start(&fleet, "a").await;
    let pod = Some(&actor.pod.id);
    for user in 0..30 {
        let payload = doc! { "url": plug.url("/hangs") };
        let user = format!("u{user}");
        let lease = fleet.lease_of("webhook", &user, pod, true, payload).await;
        fleet.revoke(&lease).await;
    }
    // All places that one type gets.
    plug.called("/hangs", 12).await;
    let payload = doc! { "url": plug.url("/quick") };
    let quick = fleet.lease_of("probe", "ada", pod, true, payload).await;
    fleet.revoke(&quick).await;
    fleet.gone_alone(&quick).await;
    let hanging = plug.calls("/hangs");
    assert_eq!((hanging.begun, hanging.answered), (12, 0));
}
