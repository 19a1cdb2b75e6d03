//! The htmx that the brain serves, so configured, lives under the policy of its pages.

use anyhow::Result;
use axum::Router;
use axum::extract::Form;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::Html;
use axum::routing::{get, post};
use test_browser::{Browser, ConsoleMessage, View, tools};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const HTMX: &str = include_str!("../../../src/http/assets/htmx-2.0.11.min.js");
const CONFIG: &str = include_str!("../../../src/http/assets/htmx-config.json");
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const BODY: &str = r##"
    <button id="get" hx-get="/more" hx-target="#more" hx-push-url="/?more">More</button> <div id="more"></div>
    <form hx-post="/form" hx-target="#answer"><label>Name <input id="name" name="name"></label>
    <button id="post">Send</button></form> <div id="answer"></div>"##;

const FRAGMENT: &str =
    r#"<p class="htmx-indicator" id="arrived">Here is more</p><script>window.ran = 1</script>"#;

/// A page of its own, so that htmx is alone with its configuration. Dropped, it is gone.
struct Site {
    url: String,
    serving: JoinHandle<()>,
}

impl Site {
    async fn start() -> Result<Self> {
        let script = ([(CONTENT_TYPE, "text/javascript")], HTMX);
        let routes = Router::new()
            .route(
                "/",
                get(async || ([(CONTENT_SECURITY_POLICY, POLICY)], Html(page()))),
            )
            .route("/htmx.js", get(async move || script))
            .route("/more", get(async || Html(FRAGMENT)))
            .route("/form", post(answer));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { url, serving })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An icon of its own keeps the browser from asking for one.
fn page() -> String {
    let config = CONFIG.replace('"', "&quot;");
    format!(
        r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
        <meta name="htmx-config" content="{config}"><link rel="icon" href="data:,">
        <script src="/htmx.js" defer></script></head><body>{BODY}</body></html>"#
    )
}

async fn answer(form: Form<Vec<(String, String)>>) -> (StatusCode, Html<String>) {
    let name = form.0.into_iter().find(|(field, _)| field == "name");
    let name = name.map(|(_, name)| name).unwrap_or_default();
    let status = name
        .parse()
        .ok()
        .and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.unwrap_or(StatusCode::OK);
    (status, Html(format!(r#"<p id="said">{name}</p>"#)))
}

#[tokio::test]
async fn fragments_are_fetched_and_the_address_follows() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let site = Site::start().await?;
    let browser = Browser::start(&tools).await?;
    let page = browser.open(View::DESKTOP).await?;
    page.goto(&site.url).await?;
    page.click("#get").await?;
    page.until_text("#more", "Here is more").await?;
    assert_eq!(page.current_url().await?.query(), Some("more"));
    assert!(
        page.execute("return window.ran", Vec::new())
            .await?
            .is_null()
    );
    page.back().await?;
    page.see("#more:empty").await?;
    assert_eq!(page.current_url().await?.query(), None);
    assert_eq!(page.console().await?, []);
    Ok(())
}

#[tokio::test]
async fn refused_form_shows_why() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let site = Site::start().await?;
    let browser = Browser::start(&tools).await?;
    let page = browser.open(View::PHONE).await?;
    page.goto(&site.url).await?;
    for name in ["Ada", "400", "404", "409", "422"] {
        page.fill("#name", name).await?;
        page.click("#post").await?;
        page.until_text("#said", name).await?;
        let messages = page.console().await?;
        let refusals = usize::from(name != "Ada");
        assert_eq!(messages.len(), refusals, "{messages:#?}");
        assert!(messages.iter().all(ConsoleMessage::is_refusal));
    }
    Ok(())
}
