//! What was decided about one holder is done to no other.

use lease_shared::CheckError;
use test_browser::tools;

use super::{Desk, Wanted, row, token_of};
use crate::insights::World;

const SEAT: &str = "seat";

#[tokio::test(flavor = "multi_thread")]
async fn next_holder_is_spared_by_who_meant_the_last() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let one = "levels: { tenant: 1 }\nttlSeconds: 600\nwaitMs: 20000";
    world.fleet.define(SEAT, one).await;
    let of = |user| Wanted {
        lease: SEAT,
        ..Wanted::of(user)
    };
    let desk = Desk::of_ada(&tools, &world).await;
    // Whether the page has heard of it by then, or not.
    for heard in [true, false] {
        let first = world.take(of("grace")).await;
        let old = token_of(&first);
        desk.watch("/insights/acme/holders").await;
        desk.ask_to_revoke(&old).await;
        desk.fill("#reason", "the demo needs it").await.unwrap();
        assert_eq!(
            desk.js("document.querySelector('#confirm-changed').hidden")
                .await,
            true
        );
        first.release().await.unwrap();
        let second = world.take(of("edsger")).await;
        if heard {
            desk.until_text("#confirm-changed", "Holder changed")
                .await
                .unwrap();
        }
        desk.click("#dialog button.danger").await.unwrap();
        desk.until_text("#outcome", "1 holder changed")
            .await
            .unwrap();
        desk.until_text(
            &row(&old),
            "holder changed: there is no such lease any more",
        )
        .await
        .unwrap();
        desk.point_away().await;
        desk.until_text(&row(&token_of(&second)), "edsger")
            .await
            .unwrap();
        second.check().await.unwrap();
        second.release().await.unwrap();
    }
    desk.is_quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_administrator_has_revoked_is_revoked_once() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let lease = world.take(Wanted::of("grace")).await;
    let token = token_of(&lease);
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme/holders").await;
    desk.ask_to_revoke(&token).await;
    desk.fill("#reason", "mine").await.unwrap();
    world.fleet.revoke(&token).await;
    desk.until_text("#confirm-changed", "Holder changed")
        .await
        .unwrap();
    desk.click("#dialog button.danger").await.unwrap();
    desk.until_text("#outcome", "1 holder changed")
        .await
        .unwrap();
    desk.until_text(&row(&token), "holder changed: it is being revoked already")
        .await
        .unwrap();
    let lost = lease.check().await;
    assert!(matches!(lost, Err(CheckError::Lost(_))), "{lost:?}");
    let revocation = world.fleet.revocation(&token).await;
    assert!(revocation.get_str("note").is_err(), "{revocation}");
    desk.is_quiet().await;
}
