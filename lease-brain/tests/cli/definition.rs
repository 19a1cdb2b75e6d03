//! `lease definition`: what holds, and who said so.

use mongodb::bson::doc;
use serde_json::json;

use crate::support::{Output, World, bare};

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
                "global": { "value": 6, "layer": "system", "held": 0, "unbooked": 0 },
                "tenant": { "value": 3, "layer": "system", "held": 0, "unbooked": 0 },
                "project": { "value": 2, "layer": "tenant", "held": 0, "unbooked": 0 },
                "user": { "value": 1, "layer": "project", "held": 0, "unbooked": 0 },
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
            "levels": {
                "global": null,
                "tenant": null,
                "project": null,
                "user": { "value": 1, "layer": "system", "held": 0, "unbooked": 0 },
            },
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
            &["FIELD", "VALUE", "LAYER", "HELD", "UNBOOKED"][..],
            &["name", "pdf"],
            &["resource", "own", "tenant"],
            &["resource (global level)", "press", "system"],
            &["levels.global", "6", "system", "0", "0"],
            &["levels.tenant", "3", "system", "0", "0"],
            &["levels.project", "2", "tenant", "0", "0"],
            &["levels.user", "1", "project", "0", "0"],
            &["ttlSeconds", "30", "project"],
            &["waitMs", "0", "tenant"],
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_from_before_a_level_had_its_cap_are_seen_before_anybody_books_it() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 9 }").await;
    world.acquire(&["pdf"]);
    world.acquire(&["pdf"]);
    world.acquire(&["pdf", "--user", "bob"]);
    world
        .define("pdf", "levels: { global: 9, project: 5, user: 1 }")
        .await;
    let pending = world.acquire(&["pdf", "--user", "eve"]);
    world.change(&pending, doc! { "state": "PENDING" }).await;
    // One that has its own name for the resource books the global counter under the operator's.
    let own = "name: pdf\nresource: own\n";
    world.write("c", "_tenant", "pdf", own).await;
    world.acquire(&["pdf", "--tenant", "c", "--user", "joe"]);
    let counted = world.lease(&["counters", "--user", "ada", "--json"]);
    assert_eq!(counted.json(), json!([]), "no counter says it");

    let output = world.lease(&["definition", "pdf"]);
    output.assert(
        0,
        "unbooked leases are from before their level had its cap, and not counted against it: until they end, more are held \
         than it allows\n",
    );
    assert_eq!(
        output.table()[3..7],
        [
            &["levels.global", "9", "system", "4", "0"][..],
            &["levels.tenant", "no cap"],
            &["levels.project", "5", "system", "3", "3"],
            &["levels.user", "1", "system", "2", "2"],
        ]
    );
    let levels = |args: &[&str]| {
        let shown = world.lease(&[&["definition", "pdf", "--json"], args].concat());
        shown.assert(0, "");
        let uses = |level: &serde_json::Value| json!([level["held"], level["unbooked"]]);
        let levels = shown.json()["levels"].clone();
        ["global", "project", "user"].map(|level| uses(&levels[level]))
    };
    let (all, of_ada) = (json!([4, 0]), json!([2, 2]));
    assert_eq!(levels(&[]), [all.clone(), json!([3, 3]), of_ada]);
    let bob = ["--user", "bob"];
    assert_eq!(levels(&bob), [all.clone(), json!([3, 3]), json!([1, 1])]);
    let elsewhere = ["--tenant", "b"];
    assert_eq!(levels(&elsewhere), [all, json!([0, 0]), json!([0, 0])]);
    let mut command = world.command(&["definition", "pdf", "--json"]);
    let without = Output::of(command.env_remove("LEASE_USER"));
    let user = &without.json()["levels"]["user"];
    assert_eq!(
        *user,
        json!({ "value": 1, "layer": "system", "held": null, "unbooked": null })
    );
}

#[test]
fn definition_in_a_directory_is_shown_without_a_server_and_says_what_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("_vance/_tenant/_vance/config/lease");
    std::fs::create_dir_all(&at).unwrap();
    std::fs::write(at.join("pdf.yaml"), "name: pdf\nlevels: { user: 1 }\n").unwrap();
    let mut command = bare(&["definition", "pdf"]);
    let documents = format!("dir:{}", directory.path().display());
    let port = test_mongo::free_port().unwrap();
    command
        .env("LEASE_DOCUMENTS", documents)
        .env("MONGODB_URI", format!("mongodb://127.0.0.1:{port}"));
    let output = Output::of(&mut command);
    output.assert(
        0,
        "lease: warning: how many leases are held is not shown: the lease store cannot be asked\n",
    );
    assert_eq!(output.table()[6], ["levels.user", "1", "system"]);
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
