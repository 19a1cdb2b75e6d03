//! On a narrow screen, and without a mouse.

use lease_shared::LeaseToken;
use mongodb::bson::doc;
use serde_json::json;
use test_browser::fantoccini::key::Key;
use test_browser::{View, tools};

use super::{Desk, Wanted, row, token_of};
use crate::insights::World;
use crate::insights::tokens::token;

/// What is broader than the screen, if anything is.
const TOO_BROAD: &str = "(() => { const width = document.documentElement.scrollWidth;
    const broad = [...document.querySelectorAll('body *')].filter(it => it.getBoundingClientRect().right > 390.5);
    const name = it => `${it.tagName}.${it.className?.baseVal ?? it.className}#${it.id}`;
    return width > 390 || innerWidth > 390 ? `${width} ${innerWidth} ${broad.slice(0, 9).map(name)}` : ''; })()";

impl Desk {
    async fn fits(&self, what: &str) {
        assert_eq!(self.js(TOO_BROAD).await, "", "{what}");
    }
}

/// The longest names there can be, with nothing at which they could be broken.
async fn longest(world: &World, tenant: &str, user: &str) -> LeaseToken {
    let resource = "E".repeat(128);
    let lease = "l".repeat(64);
    let body = format!(
        "levels: {{ user: 3, project: 3, tenant: 3 }}\nttlSeconds: 600\nresource: {resource}"
    );
    world.fleet.define(&lease, &body).await;
    let lease = world
        .take(Wanted {
            tenant,
            project: &"P".repeat(128),
            user,
            lease: &lease,
            reference: &"R".repeat(256),
            payload: doc! { "url": format!("http://127.0.0.1:1/{}", "u".repeat(300)), "K".repeat(90): "V".repeat(300) },
            in_pod: true,
        })
        .await;
    lease.into_token().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_broader_than_a_phone() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let (tenant, user) = ("T".repeat(128), "U".repeat(128));
    let held = longest(&world, &tenant, &user).await;
    let revoked = longest(&world, &tenant, &user).await;
    world.fleet.revoke(&revoked).await;
    world.fleet.failed(&revoked, 1).await;
    let desk = Desk::new(&tools, &world, View::PHONE).await;
    let page = format!("/insights/{tenant}");
    for place in ["/insights", &page] {
        desk.goto(place).await;
        desk.until_text("h1", "Sign in").await.unwrap();
        desk.fits(place).await;
    }
    desk.sign_in(&page, "nonsense").await;
    desk.until_text(".state", "Not accepted").await.unwrap();
    desk.fits("a wrong token").await;
    desk.sign_in(&page, &token(json!({ "tenant": tenant, "sub": user })))
        .await;
    desk.until_text("h1", "Overview").await.unwrap();
    for place in [
        "".to_owned(),
        "/holders".to_owned(),
        "/holders?sort=newest&user=nobody".to_owned(),
        "/holders?state=FREE".to_owned(),
        "/counters".to_owned(),
        "/revocations".to_owned(),
        format!("/holders/{held}"),
        format!("/holders/{revoked}"),
        format!("/holders/{held}/revoke"),
        format!("/holders/{}", "0".repeat(32)),
        format!("/revoke?seen={held}.HELD"),
    ] {
        desk.goto(&format!("{page}{place}")).await;
        desk.until("document.querySelector('h1')").await;
        desk.fits(&place).await;
        if !place.contains("/revoke")
            && desk.js("Boolean(document.querySelector('#view'))").await == true
        {
            desk.live().await;
            desk.fits(&place).await;
        }
    }
    desk.watch(&format!("{page}/holders")).await;
    desk.ask_to_revoke(&held).await;
    desk.fits("the dialog").await;
    assert_eq!(
        desk.js("document.querySelector('#dialog').scrollWidth <= document.querySelector('#dialog').clientWidth").await,
        true
    );
    desk.fill("#reason", &"w".repeat(500)).await.unwrap();
    desk.click("#dialog button.danger").await.unwrap();
    desk.until_text(&row(&held), "revoked; its slot")
        .await
        .unwrap();
    desk.fits("a result").await;
    desk.goto("/insights/acme").await;
    desk.until_text("h1", "Not yours to see").await.unwrap();
    desk.fits("another's page").await;
    desk.is_quiet_but_for_refusals().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_is_revoked_without_a_mouse() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let first = world.take(Wanted::of("grace")).await;
    let second = world.take(Wanted::of("edsger")).await;
    let desk = Desk::of_ada(&tools, &world).await;
    desk.watch("/insights/acme/holders").await;
    let second_row = row(&token_of(&second));
    let on_link = format!("document.activeElement.matches(\"{second_row} [data-f=revoke]\")");
    desk.press(Key::Tab).await;
    assert_eq!(desk.js("document.activeElement.className").await, "skip");
    desk.tab_until(&on_link).await;
    // Where the focus is can be seen.
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    assert_ne!(desk.js(outline).await, "none");

    desk.press(Key::Enter).await;
    desk.until("document.querySelector('#dialog').open").await;
    desk.until("document.activeElement.id === 'reason'").await;
    desk.press(Key::Escape).await;
    desk.until("!document.querySelector('#dialog').open").await;
    assert_eq!(desk.js(&on_link).await, true);

    desk.press(Key::Enter).await;
    desk.until("document.activeElement.id === 'reason'").await;
    for key in "demo".chars() {
        desk.active_element()
            .await
            .unwrap()
            .send_keys(&key.to_string())
            .await
            .unwrap();
    }
    desk.tab_until("document.activeElement.matches('#dialog button.danger')")
        .await;
    desk.press(Key::Enter).await;
    desk.until_text(&second_row, "revoked; its slot")
        .await
        .unwrap();
    assert!(second.check().await.is_err());
    first.check().await.unwrap();
    // Where the button was, the focus stays when the row has heard of it.
    desk.until_text(&second_row, "waits for its holder's end")
        .await
        .unwrap();
    let in_row = format!("document.activeElement.closest('tr')?.matches(\"{second_row}\")");
    assert_eq!(desk.js(&in_row).await, true);
    desk.is_quiet().await;
}
