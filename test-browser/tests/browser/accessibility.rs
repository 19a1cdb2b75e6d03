//! Axe finds what is wrong, and nothing where nothing is.

use anyhow::Result;
use test_browser::axe::{self, Impact};
use test_browser::{Browser, View, tools};

use crate::site::Site;

const FLAWED: &str = r#"<img id="picture" src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=">
    <font id="pale" color="eeeeee">Pale</font> <h4 id="deep">Too deep</h4>"#;

#[tokio::test]
async fn flaws_are_found() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let site = Site::of_page(FLAWED, "").await?;
    let browser = Browser::start(&tools).await?;
    let page = browser.open(View::DESKTOP).await?;
    page.goto(site.url()).await?;
    let all = axe::violations(&page).await?;
    let check = |id: &str, impact, target: &str| {
        let found = all.iter().find(|violation| violation.id == id);
        let found = found.map(|violation| (violation.impact, violation.targets.join(" ")));
        assert_eq!(found, Some((impact, target.to_owned())), "{all:#?}");
    };
    check("image-alt", Impact::Critical, "#picture");
    check("color-contrast", Impact::Serious, "#pale");
    check("heading-order", Impact::Moderate, "#deep");
    let grave = axe::grave_violations(&page).await?;
    let grave: Vec<_> = grave
        .iter()
        .map(|violation| violation.id.as_str())
        .collect();
    assert_eq!(grave, ["color-contrast", "image-alt"]);
    Ok(())
}

#[tokio::test]
async fn clean_page_is_clean_and_judging_breaks_no_policy() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let site = Site::of_page("<p>Readable</p>", "").await?;
    let browser = Browser::start(&tools).await?;
    let page = browser.open(View::PHONE).await?;
    page.goto(site.url()).await?;
    assert_eq!(axe::violations(&page).await?, []);
    assert_eq!(page.console().await?, []);
    Ok(())
}
