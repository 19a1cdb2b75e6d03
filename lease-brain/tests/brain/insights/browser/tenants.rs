//! A tenant's administrator sees nothing of another tenant.

use serde_json::json;
use test_browser::{View, tools};

use super::{Desk, Wanted, token_of};
use crate::insights::World;
use crate::insights::tokens::token;

#[tokio::test(flavor = "multi_thread")]
async fn tenants_see_nothing_of_each_other() {
    let Some(tools) = tools().unwrap() else {
        return;
    };
    let world = World::with_secret(&[]).await;
    let theirs = world
        .take(Wanted {
            project: "manhattan",
            reference: "their-job",
            ..Wanted::of("grace")
        })
        .await;
    let theirs = token_of(&theirs);
    let desk = Desk::new(&tools, &world, View::DESKTOP).await;
    let other = token(json!({ "sub": "eve", "tenant": "other" }));
    // Even at the form of another tenant one comes to one's own.
    desk.sign_in("/insights/acme", &other).await;
    desk.until_text(".brand", "Leases of other").await.unwrap();
    let of_theirs = [theirs.as_str(), "manhattan", "grace", "their-job", "bench"];
    for place in [
        "".to_owned(),
        "/holders".to_owned(),
        "/holders?user=grace".to_owned(),
        format!("/holders?q={theirs}"),
        "/counters".to_owned(),
        "/counters?resource=bench".to_owned(),
        "/revocations".to_owned(),
        format!("/holders/{theirs}"),
        format!("/holders/{theirs}/revoke"),
        format!("/revoke?seen={theirs}.HELD"),
    ] {
        desk.goto(&format!("/insights/other{place}")).await;
        desk.until_text(".brand", "Leases of other").await.unwrap();
        if place.ends_with(theirs.as_str()) && place.starts_with("/holders/") {
            desk.until_text("h1", "No such lease").await.unwrap();
        }
        let said = desk.text("main").await.unwrap();
        let asked = place.contains(theirs.as_str());
        for text in of_theirs {
            // What is in the address may be said back.
            let said_back = place.contains(text) || asked && text == theirs.as_str();
            assert!(
                said_back || !said.contains(text),
                "{place}: {text} in {said}"
            );
        }
    }
    for place in ["", "/holders", &format!("/holders/{theirs}")] {
        desk.goto(&format!("/insights/acme{place}")).await;
        desk.until_text("h1", "Not yours to see").await.unwrap();
        desk.until_text(".state", "role ADMIN in the tenant acme")
            .await
            .unwrap();
    }
    // And by scripts, as the page itself asks.
    for place in ["/api/insights/acme/holders", "/insights/acme/live/holders"] {
        let script = "fetch(arguments[0]).then(it => arguments[1](it.status))";
        let status = desk.execute_async(script, vec![json!(place)]).await;
        assert_eq!(status.unwrap(), 403, "{place}");
    }
    desk.is_quiet_but_for_refusals().await;
}
