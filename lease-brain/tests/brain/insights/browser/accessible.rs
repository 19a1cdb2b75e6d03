//! Nothing is in the way of who reads by ear, with a keyboard, or with weak eyes.

use mongodb::bson::{Document, doc};
use serde_json::json;
use test_browser::{View, axe, tools};

use super::{Desk, POOL, Wanted, token_of};
use crate::insights::World;
use crate::insights::tokens::token;

const VIEWS: [View; 4] = [
    View::DESKTOP,
    View::DESKTOP.dark(),
    View::PHONE,
    View::PHONE.dark(),
];

impl Desk {
    async fn is_accessible(&self, what: &str) {
        self.is_accessible_as(&VIEWS, what).await;
    }

    /// The same in fewer views, for a page that has nothing which the others do not have.
    async fn is_accessible_in_short(&self, what: &str) {
        self.is_accessible_as(&[View::DESKTOP, View::PHONE.dark()], what)
            .await;
    }

    async fn is_accessible_as(&self, views: &[View], what: &str) {
        for &view in views {
            self.look_through(view).await.unwrap();
            let grave = axe::grave_violations(self).await.unwrap();
            assert_eq!(grave, [], "{what} as {view:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_state_of_the_page_has_a_grave_finding() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&["--reap-interval=1h"]).await;
    let held = world.take(Wanted::of("grace")).await;
    let failing = world
        .take(Wanted {
            payload: doc! { "url": "http://127.0.0.1:1/", "password": "x" },
            in_pod: true,
            ..Wanted::of("edsger")
        })
        .await;
    let failing = token_of(&failing);
    world.fleet.revoke(&failing).await;
    let pooled = world.take_of_pool(3).await;
    let lost = world.take(Wanted::of("alan")).await;
    // A counter beyond its cap, and one that counts what is no more.
    let counters = world
        .fleet
        .mongo
        .database()
        .collection::<Document>("resource_lease_counters");
    counters
        .update_one(doc! { "lease": POOL }, doc! { "$set": { "cap": 2 } })
        .await
        .unwrap();
    world
        .fleet
        .holders()
        .delete_one(doc! { "_id": token_of(&lost).as_str() })
        .await
        .unwrap();

    let desk = Desk::new(&tools, &world, View::DESKTOP).await;
    desk.goto("/insights").await;
    desk.is_accessible("the front").await;
    desk.sign_in("/insights/acme", "nonsense").await;
    desk.until_text(".state", "Not accepted").await.unwrap();
    desk.is_accessible_in_short("a wrong token").await;
    desk.sign_in("/insights/acme", &token(json!({ "sub": "ada" })))
        .await;
    desk.until_text("h1", "Overview").await.unwrap();
    let detail = |token| format!("/holders/{token}");
    let places = [
        "".to_owned(),
        "/holders".to_owned(),
        "/holders?user=nobody".to_owned(),
        "/holders?state=FREE".to_owned(),
        "/counters".to_owned(),
        "/revocations".to_owned(),
        detail(token_of(&held)),
        detail(failing.clone()),
        detail("0".repeat(32).parse().unwrap()),
        format!("/holders/{}/revoke", token_of(&pooled[0])),
    ];
    for place in &places {
        desk.goto(&format!("/insights/acme{place}")).await;
        if desk.js("Boolean(document.querySelector('#view'))").await == true {
            desk.live().await;
        }
        if place == "/counters" {
            desk.until_text("main", "over cap by 1").await.unwrap();
            desk.until_text("main", "drift +1").await.unwrap();
        }
        match place.contains('?') {
            true => desk.is_accessible_in_short(place).await,
            false => desk.is_accessible(place).await,
        }
    }
    desk.goto("/insights/other").await;
    desk.until_text("h1", "Not yours to see").await.unwrap();
    desk.is_accessible_in_short("another's page").await;

    desk.watch("/insights/acme/holders").await;
    desk.ask_to_revoke(&token_of(&held)).await;
    let called = "document.getElementById(document.querySelector('#dialog').getAttribute('aria-labelledby'))?.textContent";
    assert_eq!(desk.js(called).await, "Revoke bench?");
    desk.is_accessible("the dialog").await;
    desk.fill("#reason", " ").await.unwrap();
    desk.click("#dialog button.danger").await.unwrap();
    desk.until_text("#dialog-error", "give a reason")
        .await
        .unwrap();
    desk.is_accessible_in_short("the dialog after a refusal")
        .await;
    desk.fill("#reason", "demo").await.unwrap();
    desk.click("#dialog button.danger").await.unwrap();
    desk.until_text("#outcome", "1 revoked").await.unwrap();
    desk.is_accessible_in_short("a result").await;
    desk.is_quiet_but_for_refusals().await;
}
