//! Several leases at once, each with its own end.

use test_browser::tools;

use super::{Desk, row, token_of};
use crate::insights::World;

#[tokio::test(flavor = "multi_thread")]
async fn each_of_several_has_its_own_result() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let leases = world.take_of_pool(5).await;
    let tokens: Vec<_> = leases.iter().map(token_of).collect();
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme/holders").await;
    let disabled = "document.querySelector('#bulk-button').disabled";
    assert_eq!(desk.js(disabled).await, true);
    for token in &tokens[..4] {
        let tick = format!("{} [name=seen]", row(token));
        desk.click(&tick).await.unwrap();
    }
    desk.until_text("#bulk-button", "Revoke 4 selected…")
        .await
        .unwrap();

    // One is gone when the questions are asked, another when they are answered.
    leases[0].release().await.unwrap();
    desk.click("#bulk-button").await.unwrap();
    desk.until("document.querySelector('#dialog').open").await;
    let said = desk.text("#dialog").await.unwrap();
    let asked_in_time = said.contains("Revoke 3 leases?");
    assert!(asked_in_time, "{said}");
    assert!(
        said.contains("1 of those you chose changed meanwhile"),
        "{said}"
    );
    assert_eq!(
        desk.js("document.querySelectorAll('.preview > li').length")
            .await,
        3
    );
    leases[1].release().await.unwrap();
    desk.fill("#reason", "maintenance").await.unwrap();
    desk.click("#dialog button.danger").await.unwrap();
    desk.until_text("#outcome", "2 revoked, 1 holder changed")
        .await
        .unwrap();
    desk.until_text(&row(&tokens[1]), "holder changed")
        .await
        .unwrap();
    for token in &tokens[2..4] {
        desk.until_text(&row(token), "revoked; its slot")
            .await
            .unwrap();
    }
    desk.point_away().await;
    assert!(leases[2].check().await.is_err());
    assert!(leases[3].check().await.is_err());
    leases[4].check().await.unwrap();
    desk.until_text("[data-tab=revocations]", "Revocations 2")
        .await
        .unwrap();
    // What nobody did anything about goes; what somebody did stays to be read, until the page is left.
    desk.until_rows(&[&tokens[1], &tokens[2], &tokens[3], &tokens[4]])
        .await;
    desk.until_text(&row(&tokens[1]), "ended").await.unwrap();
    assert_eq!(desk.js(disabled).await, true);
    desk.is_quiet().await;
}
