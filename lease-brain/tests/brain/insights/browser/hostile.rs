//! Names that would be more than names.

use mongodb::bson::doc;
use serde_json::json;
use test_browser::{View, tools};

use super::{Desk, POOL, Wanted, row, token_of};
use crate::insights::World;
use crate::insights::tokens::token;

const TENANT: &str = "a/b?\"'><script>window.pwned=1</script>%{{7*7}}";
const PAGE: &str =
    "/insights/a%2Fb%3F%22'%3E%3Cscript%3Ewindow.pwned%3D1%3C%2Fscript%3E%25%7B%7B7*7%7D%7D";

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_shown_as_text() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let odd = "levels: { tenant: 90, user: 90 }\nttlSeconds: 600\nresource: \"<b onclick=alert(1)>{{odd}}\"";
    world.fleet.define(POOL, odd).await;
    let desk = Desk::new(&tools, &world, View::DESKTOP).await;
    desk.sign_in(
        "/insights",
        &token(json!({ "tenant": TENANT, "sub": "<i>eve" })),
    )
    .await;
    desk.until_text(".brand", TENANT).await.unwrap();
    desk.until_text("#subject", "<i>eve").await.unwrap();
    desk.watch(&format!("{PAGE}/holders")).await;

    // They come by the stream, so by the page's own script.
    let long = "W".repeat(128);
    let mut tokens = Vec::new();
    for name in [
        "<script>alert(1)</script>",
        "\"'><img src=x onerror=alert(1)>",
        "\u{202e}evil\u{202d}",
        "{{constructor.constructor('alert(1)')()}}",
        "javascript:alert(1)",
        "&lt;b&gt;&amp;",
        long.as_str(),
    ] {
        let lease = world
            .take(Wanted {
                tenant: TENANT,
                project: name,
                user: name,
                lease: POOL,
                reference: name,
                payload: doc! { name.replace(['.', '$'], "_"): name },
                ..Wanted::of("")
            })
            .await;
        let token = token_of(&lease);
        lease.into_token();
        tokens.push((token, name));
    }
    for (token, name) in &tokens {
        desk.until_text(&row(token), &format!("{name} / {name}"))
            .await
            .unwrap();
        desk.until_text(&row(token), "<b onclick=alert(1)>{{odd}}")
            .await
            .unwrap();
    }
    for (token, name) in &tokens {
        desk.goto(&format!("{PAGE}/holders/{token}")).await;
        desk.live().await;
        for css in ["[aria-label=Holder]", "[aria-labelledby=payload]"] {
            desk.until_text(css, name).await.unwrap();
        }
        desk.click("[data-f=revoke]").await.unwrap();
        desk.until_text("#dialog", "Revoke <b onclick=alert(1)>{{odd}}?")
            .await
            .unwrap();
        desk.until_text("#dialog", &format!("{name} / {name}"))
            .await
            .unwrap();
        desk.fill("#reason", name).await.unwrap();
        desk.click("#dialog button.danger").await.unwrap();
        desk.until_text("#outcome", "1 revoked").await.unwrap();
    }
    desk.watch(&format!("{PAGE}/revocations")).await;
    for (token, name) in &tokens {
        desk.until_text(&row(token), &format!("by <i>eve: “{name}”"))
            .await
            .unwrap();
    }
    // A link with such a name leads to what has the name.
    desk.watch(&format!("{PAGE}/holders")).await;
    desk.click(&format!("{} [data-f=user]", row(&tokens[1].0)))
        .await
        .unwrap();
    desk.until_rows(&[&tokens[1].0]).await;
    desk.goto(&format!(
        "{PAGE}/holders?state=%3Cscript%3Ealert(1)%3C/script%3E"
    ))
    .await;
    desk.until_text(".state", "state <script>alert(1)</script> must be one of")
        .await
        .unwrap();

    assert!(desk.get_alert_text().await.is_err(), "a dialog is open");
    assert_eq!(desk.js("typeof window.pwned").await, "undefined");
    desk.is_quiet_but_for_refusals().await;
}
