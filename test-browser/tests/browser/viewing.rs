//! A page is opened, used, and seen in every way.

use anyhow::Result;
use serde_json::{Value, json};
use test_browser::{Browser, Page, View, tools};

use crate::site::Site;

const GREETING: &str = r#"<label for="name">Name</label> <input id="name" value="Bob">
    <button id="greet">Greet</button> <p id="greeting"></p>"#;
const GREET: &str = "document.querySelector('#greet').onclick = () => setTimeout(() => {
    document.querySelector('#greeting').textContent = 'Hello, ' + document.querySelector('#name').value;
}, 50);";

async fn ask(page: &Page, expression: &str) -> Result<Value> {
    Ok(page
        .execute(&format!("return {expression}"), Vec::new())
        .await?)
}

#[tokio::test]
async fn page_is_opened_filled_in_and_clicked() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let site = Site::of_page(GREETING, GREET).await?;
    let browser = Browser::start(&tools).await?;
    let page = browser.open(View::DESKTOP).await?;
    page.goto(site.url()).await?;
    assert_eq!(page.text("h1").await?, "A page");
    page.fill("#name", "Ada").await?;
    page.click("#greet").await?;
    page.until_text("#greeting", "Hello, Ada").await?;
    assert_eq!(page.console().await?, []);
    Ok(())
}

#[tokio::test]
async fn view_has_its_size_and_its_colours_on_every_page() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let (one, other) = (Site::of_page("", "").await?, Site::of_page("", "").await?);
    let browser = Browser::start(&tools).await?;
    let page = browser.open(View::DESKTOP).await?;
    for view in [
        View::DESKTOP,
        View::PHONE,
        View::PHONE.dark(),
        View::DESKTOP.dark(),
    ] {
        page.look_through(view).await?;
        for site in [&one, &other] {
            page.goto(site.url()).await?;
            let seen = ask(
                &page,
                "[innerWidth, innerHeight, matchMedia('(prefers-color-scheme: dark)').matches]",
            );
            let dark = view.dark() == view;
            assert_eq!(
                seen.await?,
                json!([view.width, view.height, dark]),
                "{view:?}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn browsers_share_nothing() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let site = Site::of_page("", "").await?;
    let browser = Browser::start(&tools).await?;
    let one = browser.open(View::DESKTOP).await?;
    let other = browser.open(View::PHONE).await?;
    for page in [&one, &other] {
        page.goto(site.url()).await?;
    }
    ask(&one, "document.cookie = 'a=b'").await?;
    assert_eq!(ask(&one, "document.cookie").await?, "a=b");
    assert_eq!(ask(&other, "document.cookie").await?, "");
    Ok(())
}

#[tokio::test]
async fn screenshot_is_as_large_as_the_view() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let site = Site::of_page("", "").await?;
    let browser = Browser::start(&tools).await?;
    let page = browser.open(View::PHONE).await?;
    page.goto(site.url()).await?;
    let file = browser.directory().join("pictures").join("page.png");
    page.screenshot_to(&file).await?;
    let picture = std::fs::read(&file)?;
    // A PNG file says its width and height at this place.
    let size = [View::PHONE.width, View::PHONE.height].map(u32::to_be_bytes);
    assert_eq!(picture[16..24], size.concat());
    Ok(())
}
