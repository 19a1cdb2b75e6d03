//! What happens elsewhere is seen without doing anything.

use serde_json::json;
use test_browser::tools;

use super::{Desk, Wanted, row, token_of};
use crate::insights::World;

/// The seconds of `in 48 s` in the row's last column of times.
const LEFT: &str = "Number(/^in (\\d+) s$/.exec(
    document.querySelector('[data-label=Expires] time').textContent)?.[1] ?? NaN)";

#[tokio::test(flavor = "multi_thread")]
async fn lease_appears_counts_down_and_vanishes_by_itself() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let short = "levels: { tenant: 2 }\nttlSeconds: 55";
    world.fleet.define("short", short).await;
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme/holders").await;
    desk.until_text("#view", "Nobody holds a lease in this tenant")
        .await
        .unwrap();
    desk.js("window.sameDocument = true").await;

    let lease = world
        .take(Wanted {
            lease: "short",
            ..Wanted::of("grace")
        })
        .await;
    let row = row(&token_of(&lease));
    for words in ["short", "held", "thesis / grace", "job-17", "Revoke…"] {
        desk.until_text(&row, words).await.unwrap();
    }
    desk.until_text("[data-tab=holders]", "Holders 1")
        .await
        .unwrap();
    desk.until_text("[data-tab=counters]", "Counters 1")
        .await
        .unwrap();
    let left = desk.js(LEFT).await;
    desk.until(&format!("{LEFT} < {left}")).await;
    assert_eq!(desk.js("window.sameDocument").await, true);
    assert_eq!(desk.text("#badge").await.unwrap(), "live");

    lease.release().await.unwrap();
    desk.until_rows(&[]).await;
    desk.until_text("#view", "Nobody holds a lease in this tenant")
        .await
        .unwrap();
    assert_eq!(desk.js("window.sameDocument").await, true);
    desk.is_quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overview_and_the_page_of_a_lease_follow() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme").await;
    let held = "document.querySelector('li[data-key=held] strong').textContent";
    assert_eq!(desk.js(held).await, "0");
    let lease = world.take(Wanted::of("grace")).await;
    desk.until(&format!("{held} === '1'")).await;
    desk.until_text("[data-list=fullest]", "1 of 1 in use")
        .await
        .unwrap();
    desk.until_text("[data-list=fullest]", "full: who asks next waits")
        .await
        .unwrap();
    desk.click("[data-list=oldest] [data-f=open]")
        .await
        .unwrap();
    desk.until_text("h1", "One lease").await.unwrap();
    desk.live().await;
    assert_eq!(
        desk.js("document.querySelector('#gone').hidden").await,
        true
    );
    lease.release().await.unwrap();
    desk.until_text("#gone", "This lease is gone")
        .await
        .unwrap();
    desk.until_text("article", "grace").await.unwrap();
    assert_eq!(
        desk.js("document.querySelectorAll('[data-held]').length")
            .await,
        json!(0)
    );
    desk.is_quiet().await;
}
