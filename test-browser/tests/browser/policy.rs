//! What a page may not do is seen in the log.

use anyhow::Result;
use test_browser::{Browser, ConsoleMessage, View, tools};

use crate::site::Site;

const FORBIDDEN: &str = r#"<p style="color: red">Red</p><img alt="" src="http://127.0.0.2/picture.png">
    <button onclick="1">Press</button>"#;

#[tokio::test]
async fn broken_policy_is_an_error_of_the_console() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let site = Site::of_page(FORBIDDEN, "fetch('http://127.0.0.2/').catch(() => {})").await?;
    let browser = Browser::start(&tools).await?;
    let page = browser.open(View::DESKTOP).await?;
    page.goto(site.url()).await?;
    let errors = page.console_errors().await?;
    for directive in ["style-src", "img-src", "script-src", "connect-src"] {
        let broken = |error: &ConsoleMessage| {
            error.source == "security" && error.message.contains(directive)
        };
        assert!(errors.iter().any(broken), "{directive}: {errors:#?}");
    }
    assert_eq!(page.console_errors().await?, [], "they are said once");
    Ok(())
}

#[tokio::test]
async fn exceptions_and_refusals_are_errors_of_the_console() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let site = Site::of_page("", "console.info('hello'); eval('1')").await?;
    let browser = Browser::start(&tools).await?;
    let page = browser.open(View::DESKTOP).await?;
    page.goto(site.url()).await?;
    let fetch = "fetch('/none').then(arguments[0])";
    page.execute_async(fetch, Vec::new()).await?;
    let errors = page.console_errors().await?;
    let sources: Vec<_> = errors.iter().map(|error| &*error.source).collect();
    assert_eq!(sources, ["javascript", "network"], "{errors:#?}");
    assert!(errors[0].message.contains("EvalError"), "{errors:#?}");
    assert!(errors[1].is_refusal());
    Ok(())
}
