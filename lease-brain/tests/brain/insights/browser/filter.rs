//! What narrows a list stays as it is while the list changes.

use test_browser::tools;

use super::{Desk, POOL, Wanted, token_of};
use crate::insights::World;

const QUERY: &str = "location.search";
const FIELD: &str = "document.querySelector('#filters [name=q]').value";

#[tokio::test(flavor = "multi_thread")]
async fn filter_outlives_changes_a_reload_and_the_way_back() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let held = world.take_of_pool(2).await;
    let grace = [token_of(&held[0]), token_of(&held[1])];
    let of = |user| Wanted {
        lease: POOL,
        ..Wanted::of(user)
    };
    let ada = world.take(of("ada")).await;
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme/holders").await;
    desk.until_rows(&[&grace[0], &grace[1], &token_of(&ada)])
        .await;

    desk.fill("#filters [name=q]", "ada").await.unwrap();
    desk.until_rows(&[&token_of(&ada)]).await;
    assert_eq!(desk.js(QUERY).await, "?q=ada");
    desk.until_text(".shown", "showing 1 of 1 leases")
        .await
        .unwrap();
    desk.live().await;

    world.take(of("edsger")).await.into_token();
    let second = world.take(of("ada")).await;
    let both = [&token_of(&ada), &token_of(&second)];
    desk.until_rows(&both).await;
    // All that was there before is in the count beside the tab, so the update was one of everything.
    desk.until_text("[data-tab=holders]", "Holders 5")
        .await
        .unwrap();
    assert_eq!(desk.js(FIELD).await, "ada");
    assert_eq!(desk.js(QUERY).await, "?q=ada");

    desk.refresh().await.unwrap();
    desk.until_rows(&both).await;
    assert_eq!(desk.js(FIELD).await, "ada");
    desk.back().await.unwrap();
    desk.until(&format!("{QUERY} === ''")).await;
    desk.until_text(".shown", "showing 5 of 5 leases")
        .await
        .unwrap();
    desk.until(&format!("{FIELD} === ''")).await;
    desk.forward().await.unwrap();
    desk.until(&format!("{QUERY} === '?q=ada'")).await;
    desk.until_rows(&both).await;
    desk.until(&format!("{FIELD} === 'ada'")).await;
    desk.live().await;

    desk.fill("#filters [name=olderThan]", "soon")
        .await
        .unwrap();
    desk.until_text("#list", "olderThan soon is no time")
        .await
        .unwrap();
    desk.is_quiet_but_for_refusals().await;
}
