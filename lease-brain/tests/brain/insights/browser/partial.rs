//! What has not changed is not touched.

use serde_json::json;
use test_browser::tools;

use super::{Desk, row, token_of};
use crate::insights::World;

/// Marks every row and cell there is.
const MARK: &str = "(() => { for (const row of document.querySelectorAll('[data-list=rows] > tr'))
    for (const element of [row, ...row.children]) element.marked = true; })()";
/// The rows without the mark, and the cells without it, each by its lease and column.
const NEW: &str = "(() => { const rows = [...document.querySelectorAll('[data-list=rows] > tr')];
    const cells = rows.flatMap(row => [...row.children].filter(cell => !cell.marked)
        .map(cell => [row.dataset.key, cell.dataset.label]));
    return [rows.length, rows.filter(row => !row.marked).length, cells]; })()";

#[tokio::test(flavor = "multi_thread")]
async fn only_what_has_changed_of_sixty_rows_is_replaced() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let leases = world.take_of_pool(60).await;
    let used = &leases[30];
    let token = token_of(used);
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme/holders?perPage=100").await;
    desk.until_text(".shown", "showing 60 of 60").await.unwrap();
    desk.js(MARK).await;
    assert_eq!(desk.js(NEW).await, json!([60, 0, []]));

    let cell = format!(
        "document.querySelector(\"{} [data-label='Last used'] time\")",
        row(&token)
    );
    let before = desk.js(&format!("{cell}.dateTime")).await;
    used.check().await.unwrap();
    desk.until(&format!("{cell}.dateTime !== {before}")).await;
    let expected = [(&token, "Last used"), (&token, "Expires")];
    assert_eq!(desk.js(NEW).await, json!([60, 0, expected]));

    // One goes, and one comes: all others are the same elements still.
    leases[10].release().await.unwrap();
    let new = world.take_of_pool(1).await;
    let new = row(&token_of(&new[0]));
    desk.until(&format!("document.querySelector(\"{new}\")"))
        .await;
    desk.until("document.querySelectorAll('[data-list=rows] > tr').length === 60")
        .await;
    let changed = desk.js(NEW).await;
    assert_eq!(changed[1], 1, "{changed}");
    desk.is_quiet().await;
}
