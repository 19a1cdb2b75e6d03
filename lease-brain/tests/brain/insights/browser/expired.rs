//! A sign-in that ends while the page is open.

use serde_json::json;
use test_browser::{View, tools};
use test_mongo::eventually;

use super::{Desk, Wanted};
use crate::fleet::SOON;
use crate::insights::World;
use crate::insights::tokens::{now, token};

#[tokio::test(flavor = "multi_thread")]
async fn page_says_that_its_sign_in_has_expired_and_where_to_renew_it() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let _held = world.take(Wanted::of("grace")).await;
    let desk = Desk::new(&tools, &world, View::DESKTOP).await;
    let short = token(json!({ "sub": "ada", "exp": now() + 4 }));
    desk.sign_in("/insights", &short).await;
    desk.watch("/insights/acme/holders").await;
    desk.until_text("#badge", "sign-in expired").await.unwrap();
    // What was seen may still be read.
    desk.until_text("[data-list=rows]", "grace").await.unwrap();
    desk.is_quiet().await;
    // Who acts nevertheless is told so as well, from when the browser has dropped the token.
    let dropped = "return fetch('/api/insights/acme/me').then(it => it.status === 401)";
    eventually("the browser has dropped the token", SOON, async || {
        Ok(desk.execute(dropped, Vec::new()).await? == true)
    })
    .await
    .unwrap();
    desk.click("[data-list=rows] [data-f=revoke]")
        .await
        .unwrap();
    desk.until_text("#dialog", "Sign in").await.unwrap();
    desk.click("#dialog [data-close]").await.unwrap();

    desk.click("#badge-sign-in").await.unwrap();
    desk.until_text("h1", "Sign in").await.unwrap();
    desk.fill("#token", &token(json!({ "sub": "ada" })))
        .await
        .unwrap();
    desk.click("#sign-in button").await.unwrap();
    desk.until_text("h1", "Overview").await.unwrap();
    desk.live().await;
    desk.is_quiet_but_for_refusals().await;
}
