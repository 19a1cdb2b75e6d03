//! `lease definition`: what holds, and who said so.

use serde_json::json;

use crate::support::World;

async fn layered() -> World {
    let world = World::new().await;
    world
        .define(
            "pdf",
            "resource: press\nlevels: { global: 6, tenant: 3 }\nttlSeconds: 60",
        )
        .await;
    let tenant = "name: pdf\nresource: own\nlevels: { global: 500, project: 2 }\nwaitMs: 0\n";
    world.write("acme", "_tenant", "pdf", tenant).await;
    let project = "name: pdf\nresource: mine\nlevels: { tenant: 9, user: 1 }\nttlSeconds: 30\n";
    world.write("acme", "thesis", "pdf", project).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_each_field_with_its_layer_and_what_was_ignored() {
    let world = layered().await;
    let output = world.lease(&["definition", "pdf", "--json"]);
    output.assert(0, "");
    let ignored = |field: &str, layer: &str, owners: &str| {
        let reason = format!("a {layer} document may not set {field}: only {owners} documents may");
        json!({ "field": field, "layer": layer, "reason": reason })
    };
    assert_eq!(
        output.json(),
        json!({
            "name": "pdf",
            "resource": { "value": "own", "layer": "tenant" },
            "globalResource": { "value": "press", "layer": "system" },
            "levels": {
                "global": { "value": 6, "layer": "system" },
                "tenant": { "value": 3, "layer": "system" },
                "project": { "value": 2, "layer": "tenant" },
                "user": { "value": 1, "layer": "project" },
            },
            "ttlSeconds": { "value": 30, "layer": "project" },
            "waitMs": { "value": 0, "layer": "tenant" },
            "ignored": [
                ignored("levels.global", "tenant", "bundled, system"),
                ignored("resource", "project", "bundled, system, tenant"),
                ignored("levels.tenant", "project", "bundled, system, tenant"),
            ],
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_null_for_a_level_without_cap_and_says_what_is_default() {
    let world = World::new().await;
    world.define("pdf", "levels: { user: 1 }").await;
    let output = world.lease(&["definition", "pdf", "--json"]);
    output.assert(0, "");
    assert_eq!(
        output.json(),
        json!({
            "name": "pdf",
            "resource": { "value": "pdf", "layer": "default" },
            "globalResource": { "value": "pdf", "layer": "default" },
            "levels": { "global": null, "tenant": null, "project": null, "user": { "value": 1, "layer": "system" } },
            "ttlSeconds": { "value": 120, "layer": "default" },
            "waitMs": { "value": 10000, "layer": "default" },
            "ignored": [],
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn table_is_data_and_what_was_ignored_is_a_remark() {
    let world = layered().await;
    let output = world.lease(&["definition", "pdf"]);
    output.assert(
        0,
        "ignored: levels.global in the tenant layer: a tenant document may not set levels.global: only bundled, system \
         documents may\n\
         ignored: resource in the project layer: a project document may not set resource: only bundled, system, tenant \
         documents may\n\
         ignored: levels.tenant in the project layer: a project document may not set levels.tenant: only bundled, \
         system, tenant documents may\n",
    );
    assert_eq!(
        output.table(),
        [
            &["FIELD", "VALUE", "LAYER"][..],
            &["name", "pdf"],
            &["resource", "own", "tenant"],
            &["resource (global level)", "press", "system"],
            &["levels.global", "6", "system"],
            &["levels.tenant", "3", "system"],
            &["levels.project", "2", "tenant"],
            &["levels.user", "1", "project"],
            &["ttlSeconds", "30", "project"],
            &["waitMs", "0", "tenant"],
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bundled_definition_is_there_without_any_document() {
    let world = World::new().await;
    let output = world.lease(&["definition", "tex", "--json"]);
    output.assert(0, "");
    assert_eq!(
        output.json()["resource"],
        json!({ "value": "tex2pdf", "layer": "bundled" })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_layer_is_named_by_place_field_and_value() {
    let world = layered().await;
    let broken = "name: pdf\nlevels:\n  project: 2\n  user: \"6\"\n";
    world.write("acme", "thesis", "pdf", broken).await;
    let place = "project document acme/thesis/_vance/config/lease/pdf.yaml:4: levels.user: `\"6\"`: must be a whole \
                 number from 1 to 1000";
    for args in [
        &["definition", "pdf"][..],
        &["acquire", "pdf"],
        &["run", "pdf", "--", "true"],
    ] {
        let output = world.lease(args);
        let error = output.error(69);
        assert!(
            error.starts_with("LEASE_UNAVAILABLE: ") && error.contains(place),
            "{error}"
        );
    }
    // Whose layer it is not has no trouble.
    world.lease(&["definition", "pdf", "--project", "other"]).assert(
        0,
        "ignored: levels.global in the tenant layer: a tenant document may not set levels.global: only bundled, system \
         documents may\n",
    );
}
