//! Nothing moves under the hand of who is at it.

use lease_shared::{Lease, LeaseToken};
use serde_json::Value;
use test_browser::fantoccini::key::Key;
use test_browser::tools;

use super::{Desk, row, token_of};
use crate::insights::World;

const NEWEST: &str = "/insights/acme/holders?sort=newest";

/// Where a row is, and what it says but for its times.
async fn place(desk: &Desk, token: &LeaseToken) -> Value {
    let row = row(token);
    desk.js(&format!(
        "(() => {{ const row = document.querySelector(\"{row}\");
            const {{ top, left, width, height }} = row.getBoundingClientRect();
            return [top, left, width, height, row.querySelector('.standing').textContent]; }})()"
    ))
    .await
}

/// Two above the others go, and two come.
async fn churn(world: &World, leases: &[Lease]) -> [LeaseToken; 2] {
    let [.., second, first] = leases else {
        panic!("there are two");
    };
    first.release().await.unwrap();
    second.release().await.unwrap();
    let new = world.take_of_pool(2).await;
    let tokens = [token_of(&new[0]), token_of(&new[1])];
    for lease in new {
        lease.into_token();
    }
    tokens
}

#[tokio::test(flavor = "multi_thread")]
async fn row_under_the_pointer_stays_where_it_is() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let leases = world.take_of_pool(6).await;
    let tokens: Vec<_> = leases.iter().map(token_of).collect();
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch(NEWEST).await;
    let shown: Vec<_> = tokens.iter().rev().collect();
    desk.until_rows(&shown).await;

    let hovered = &tokens[2];
    let before = place(&desk, hovered).await;
    let (x, y) = (
        before[1].as_f64().unwrap() + before[2].as_f64().unwrap() / 2.0,
        before[0].as_f64().unwrap() + before[3].as_f64().unwrap() / 2.0,
    );
    desk.point_at(x, y).await;
    let under = format!("document.elementFromPoint({x}, {y}).closest('tr').dataset.key");
    assert_eq!(desk.js(&under).await, hovered.as_str());

    let new = churn(&world, &leases).await;
    desk.until_text("#show-moved", "2 new, 2 ended – show")
        .await
        .unwrap();
    for gone in &tokens[4..] {
        desk.until_text(&row(gone), "ended").await.unwrap();
    }
    desk.until_rows(&shown).await;
    assert_eq!(place(&desk, hovered).await, before);
    assert_eq!(desk.js(&under).await, hovered.as_str());

    desk.point_away().await;
    desk.until_rows(&[
        &new[1], &new[0], &tokens[3], &tokens[2], &tokens[1], &tokens[0],
    ])
    .await;
    desk.until("document.querySelector('#moved').hidden").await;
    desk.is_quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_with_the_focus_stays_where_it_is() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let leases = world.take_of_pool(4).await;
    let tokens: Vec<_> = leases.iter().map(token_of).collect();
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch(NEWEST).await;
    desk.point_away().await;
    let last = &tokens[0];
    let focused = format!(
        "document.activeElement.matches(\"{} [data-f=revoke]\")",
        row(last)
    );
    desk.tab_until(&focused).await;
    let before = place(&desk, last).await;

    let new = churn(&world, &leases).await;
    // The lease with the focus changes too: its row says so, and keeps the focus.
    leases[0].check().await.unwrap();
    desk.until_text("#show-moved", "2 new, 2 ended – show")
        .await
        .unwrap();
    assert_eq!(place(&desk, last).await, before);
    assert_eq!(desk.js(&focused).await, true);

    // The button is the next stop but for what stands below the table.
    desk.tab_until("document.activeElement.id === 'show-moved'")
        .await;
    desk.until_rows(&[&new[1], &new[0], &tokens[1], &tokens[0]])
        .await;
    desk.is_quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_moved_is_shown_when_asked_for() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let leases = world.take_of_pool(3).await;
    let tokens: Vec<_> = leases.iter().map(token_of).collect();
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch(NEWEST).await;
    desk.ask_to_revoke(&tokens[0]).await;
    // While a question is asked, the list behind it is still.
    desk.point_away().await;
    let new = churn(&world, &leases).await;
    desk.until("document.querySelector('#show-moved').textContent === '2 new, 2 ended – show'")
        .await;
    desk.until_rows(&[&tokens[2], &tokens[1], &tokens[0]]).await;
    desk.press(Key::Escape).await;
    desk.until("!document.querySelector('#dialog').open").await;
    // The focus is back in the list, and so holds it.
    desk.click("#show-moved").await.unwrap();
    desk.until_rows(&[&new[1], &new[0], &tokens[0]]).await;
    desk.until("document.querySelector('#moved').hidden").await;
    desk.is_quiet().await;
}
