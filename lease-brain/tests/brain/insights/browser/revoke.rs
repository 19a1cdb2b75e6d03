//! A lease is ended by somebody who knows what that does.

use lease_shared::CheckError;
use mongodb::bson::doc;
use test_browser::fantoccini::key::Key;
use test_browser::tools;

use super::{Desk, Wanted, row, token_of};
use crate::fleet::{Answer, Plug};
use crate::insights::World;

#[tokio::test(flavor = "multi_thread")]
async fn lease_is_revoked_by_who_was_told_what_that_does() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let plug = Plug::new(Answer::Hang).await;
    let in_pod = |user, url: &str| Wanted {
        payload: doc! { "url": url },
        in_pod: true,
        ..Wanted::of(user)
    };
    let others = world.take(in_pod("grace", &plug.url("/off"))).await;
    let own = world.take(Wanted::of("ada")).await;
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme/holders").await;

    let other = token_of(&others);
    desk.ask_to_revoke(&other).await;
    assert_eq!(desk.text("#dialog h2").await.unwrap(), "Revoke bench?");
    for words in [
        "Holder\nthesis / grace",
        "Reference\njob-17",
        "Held since\n",
        " s ago",
        "Runs in\na alive",
        "its handler runs there, or in another brain if that pod does not do it; the slot comes back after that",
        "User grace in project thesis: the next check of the lease says that it is lost",
        "What is not undone\nwhat runs under it in pod",
    ] {
        desk.until_text("#dialog", words).await.unwrap();
    }
    // Another's needs a reason: the browser asks for one, and so does the brain.
    desk.click("#dialog button.danger").await.unwrap();
    assert_eq!(desk.js("document.activeElement.id").await, "reason");
    desk.fill("#reason", "   ").await.unwrap();
    desk.click("#dialog button.danger").await.unwrap();
    desk.until_text("#dialog-error", "give a reason")
        .await
        .unwrap();
    others.check().await.unwrap();
    desk.is_quiet_but_for_refusals().await;

    desk.fill("#reason", "the demo needs it").await.unwrap();
    desk.press(Key::Enter).await;
    desk.until_text("#outcome", "1 revoked").await.unwrap();
    desk.until("!document.querySelector('#dialog').open").await;
    let said = "revoked; its slot comes back when its clean-up is done";
    desk.until_text(&row(&other), said).await.unwrap();
    let lost = others.check().await;
    assert!(matches!(lost, Err(CheckError::Lost(_))), "{lost:?}");
    desk.point_away().await;
    plug.called("/off", 1).await;
    desk.until_text(&row(&other), "clean-up running")
        .await
        .unwrap();
    // What was done about it stays in its row while the row changes, and when the lease is gone.
    desk.until_text(&row(&other), said).await.unwrap();
    plug.answer(Answer::Status(204));
    desk.until_text(&row(&other), "ended").await.unwrap();
    desk.until_text(&row(&other), said).await.unwrap();

    let own = (token_of(&own), own);
    desk.ask_to_revoke(&own.0).await;
    desk.until_text("#dialog", "You: the next check")
        .await
        .unwrap();
    desk.until_text("#dialog", "not needed: the lease is your own")
        .await
        .unwrap();
    desk.until_text(
        "#dialog",
        "its handler runs in a brain, when its holder has ended",
    )
    .await
    .unwrap();
    desk.click("#dialog button.danger").await.unwrap();
    desk.until_text(&row(&own.0), "its slot comes back when its holder says")
        .await
        .unwrap();
    assert!(own.1.check().await.is_err());
    desk.point_away().await;
    desk.until_text("[data-tab=revocations]", "Revocations 1")
        .await
        .unwrap();
    desk.is_quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_clean_up_says_why_and_is_tried_again_at_once() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let plug = Plug::new(Answer::Status(500)).await;
    let lease = world
        .take(Wanted {
            payload: doc! { "url": plug.url("/off") },
            in_pod: true,
            ..Wanted::of("grace")
        })
        .await;
    let token = token_of(&lease);
    world.fleet.revoke(&token).await;
    world.fleet.failed(&token, 1).await;
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme/revocations").await;
    let row = row(&token);
    for words in ["bench", "500", "an operator revoked it"] {
        desk.until_text(&row, words).await.unwrap();
    }
    plug.answer(Answer::Hang);
    let calls = plug.calls("/off").begun;
    desk.click(&format!("{row} [data-f=retry]")).await.unwrap();
    desk.until_text(&row, "it is tried again now")
        .await
        .unwrap();
    plug.called("/off", calls + 1).await;
    desk.until_text(&row, "clean-up running").await.unwrap();
    plug.answer(Answer::Status(200));
    desk.point_away().await;
    world.fleet.gone(&token).await;
    desk.until_text("#view", "Nothing is being revoked")
        .await
        .unwrap();
    desk.is_quiet().await;
}
