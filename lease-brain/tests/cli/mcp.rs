//! `lease mcp tools | call | close`, through brains, to a server that fails as it is told.

use std::process::Command;

use lease_shared::definition::{ConfigDocuments, DocumentAddress, MongoDocuments};
use mongodb::bson::doc;
use serde_json::json;
use test_mcp::fake::{FakeMcp, Fault, Step};

use crate::{
    brain::Brain,
    support::{Output, SOON, World, until},
};

const TOOL: &str = "_vance/config/tools/fake.yaml";

/// A server, the tool that names it, and an exclusive lease of each user.
async fn fake(world: &World) -> FakeMcp {
    let server = FakeMcp::start().await;
    world
        .define("session", "levels: { user: 1 }\nttlSeconds: 600\nwaitMs: 0")
        .await;
    let parameters = json!({ "transport": "http", "url": server.url(), "lease": "session" });
    let text = json!({ "type": "mcp_server", "parameters": parameters }).to_string();
    let address = DocumentAddress::new("_vance", "_tenant", TOOL).unwrap();
    let documents = ConfigDocuments::Mongo(MongoDocuments::new(world.mongo.database()));
    documents.put(&address, &text).await.unwrap();
    server
}

/// Runs beside the server, which lives in this test's runtime.
async fn mcp(world: &World, args: &[&str]) -> Output {
    let mut command = world.operator_command(&[&["mcp"], args].concat());
    tokio::task::spawn_blocking(move || Output::of(&mut command))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn person_lists_calls_and_closes() {
    let world = World::new().await;
    let server = fake(&world).await;
    let _brain = Brain::start(&world, "a");
    let listed = mcp(&world, &["tools", "fake"]).await;
    listed.assert(0, "");
    assert_eq!(
        listed.table(),
        [
            vec!["TOOL", "DESCRIPTION"],
            vec!["echo", "Gives its arguments back"],
            vec!["slow"],
            vec!["fail"]
        ]
    );
    let listed = mcp(&world, &["tools", "fake", "--json"]).await.json();
    assert_eq!(
        listed["tools"][0]["inputSchema"]["properties"]["text"]["type"],
        "string"
    );

    let called = mcp(&world, &["call", "fake", "echo", r#"{"text": "hi"}"#]).await;
    called.assert(0, "");
    assert!(called.stdout.contains("hi"), "{called:?}");
    let called = mcp(
        &world,
        &["call", "fake", "echo", r#"{"text": "hi"}"#, "--json"],
    )
    .await;
    assert_eq!(called.json()["content"][0]["type"], "text");
    let mut command = world.operator_command(&["mcp", "call", "fake", "echo", "-"]);
    let given =
        tokio::task::spawn_blocking(move || Output::given(&mut command, br#"{"text": "piped"}"#));
    let given = given.await.unwrap();
    assert!(
        given.code == Some(0) && given.stdout.contains("piped"),
        "{given:?}"
    );
    assert_eq!(server.opened().len(), 1, "one session for all");

    let closed = mcp(&world, &["close", "fake"]).await;
    closed.assert(0, "");
    assert_eq!(closed.stdout, "the session has ended\n");
    assert_eq!(
        mcp(&world, &["close", "fake", "--json"]).await.json(),
        json!({ "closed": false })
    );
    assert!(server.live().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn code_says_what_to_do_next() {
    let world = World::new().await;
    let server = fake(&world).await;
    let no_brain = mcp(&world, &["call", "fake", "echo"]).await;
    assert!(no_brain.error(69).contains("no brain is alive"));
    let _brain = Brain::start(&world, "a");
    let failed = mcp(&world, &["call", "fake", "fail"]).await;
    assert!(
        failed.error(1).starts_with("the tool failed: "),
        "{failed:?}"
    );
    let busy = mcp(&world, &["call", "fake", "echo", "--project", "paper"]).await;
    assert!(
        busy.error(75).contains("1 of 1 in use at level user"),
        "{busy:?}"
    );
    for arguments in ["[]", "{", "7", ""] {
        let refused = mcp(&world, &["call", "fake", "echo", arguments]).await;
        assert!(
            refused.error(64).contains("must be a JSON object"),
            "{refused:?}"
        );
    }
    let mut command = world.operator_command(&["mcp", "call", "fake", "echo", "-"]);
    let odd = tokio::task::spawn_blocking(move || Output::given(&mut command, b"\xff"));
    assert!(odd.await.unwrap().error(64).contains("not UTF-8"));
    let undefined = mcp(&world, &["call", "none", "echo"]).await;
    assert!(
        undefined
            .error(78)
            .contains("no document defines the tool `none`"),
        "{undefined:?}"
    );
    let invalid = mcp(&world, &["call", "a/b", "echo"]).await;
    assert!(invalid.error(78).contains("tool name"), "{invalid:?}");
    server.fail(Step::Initialize, Fault::Status(500, "no"));
    let down = mcp(&world, &["call", "fake", "echo", "--user", "bob"]).await;
    assert!(
        down.error(69).contains("could not open a session at fake"),
        "{down:?}"
    );
    let mut bare: Command = world.command(&["mcp", "tools", "fake"]);
    let secretless = tokio::task::spawn_blocking(move || Output::of(&mut bare))
        .await
        .unwrap();
    assert!(
        secretless.error(64).contains("LEASE_INTERNAL_TOKEN"),
        "{secretless:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_call_says_so() {
    let world = World::new().await;
    let server = fake(&world).await;
    let _brain = Brain::start(&world, "a");
    let running = mcp(&world, &["call", "fake", "slow"]);
    let revoking = async {
        server
            .until("the call runs", |server| server.running() == 1)
            .await;
        let holder = world
            .holders()
            .find_one(doc! { "type": "mcp" })
            .await
            .unwrap()
            .unwrap();
        let token = holder.get_str("_id").unwrap().to_owned();
        let mut command = world.operator_command(&["revoke", &token, "--wait"]);
        tokio::task::spawn_blocking(move || Output::of(&mut command))
            .await
            .unwrap()
    };
    let (called, revoked) = tokio::join!(running, revoking);
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    let error = called.error(76);
    assert!(
        error.contains("session revoked") && error.contains("the next call opens a new session"),
        "{error}"
    );
    assert!(server.live().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_call_is_cancelled_and_the_session_stays() {
    let world = World::new().await;
    let server = fake(&world).await;
    let _brain = Brain::start(&world, "a");
    let mut command = world.operator_command(&["mcp", "call", "fake", "slow"]);
    let mut child = command.spawn().unwrap();
    server
        .until("the call runs", |server| server.running() == 1)
        .await;
    child.kill().unwrap();
    child.wait().unwrap();
    server
        .until("it is cancelled", |server| {
            server.count(Step::Cancelled) == 1
        })
        .await;
    assert_eq!(mcp(&world, &["call", "fake", "echo"]).await.code, Some(0));
    assert_eq!(server.opened().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_found_again_among_brains() {
    let world = World::new().await;
    let server = fake(&world).await;
    let (one, two) = (Brain::start(&world, "a"), Brain::start(&world, "b"));
    for user in ["ada", "bob", "eve", "kim"] {
        for _ in 0..2 {
            let called = mcp(&world, &["call", "fake", "echo", "--user", user]).await;
            assert_eq!(called.code, Some(0), "{called:?}");
        }
    }
    assert_eq!(server.opened().len(), 4, "one session for each");
    // Where a brain was named, the session is found there again.
    let named = mcp(
        &world,
        &[
            "call",
            "fake",
            "echo",
            "--user",
            "lea",
            "--brain",
            &two.endpoint,
        ],
    )
    .await;
    assert_eq!(named.code, Some(0), "{named:?}");
    let named = mcp(
        &world,
        &[
            "call",
            "fake",
            "echo",
            "--user",
            "max",
            "--brain",
            &one.endpoint,
        ],
    )
    .await;
    assert_eq!(named.code, Some(0), "{named:?}");
    for user in ["lea", "max"] {
        let called = mcp(&world, &["call", "fake", "echo", "--user", user]).await;
        assert_eq!(called.code, Some(0), "{called:?}");
    }
    assert_eq!(server.opened().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_that_nobody_could_use_is_not_written() {
    let world = World::new().await;
    let put = |text: &str, more: &[&str]| {
        let args = [
            &[
                "document",
                "put",
                TOOL,
                "--tenant",
                "acme",
                "--project",
                "thesis",
            ],
            more,
        ]
        .concat();
        Output::given(&mut world.command(&args), text.as_bytes())
    };
    let broken = "type: mcp_server\nparameters:\n  transport: http\n  urls: http://a/\n";
    let refused = put(broken, &[]);
    let error = refused.error(78);
    for part in [
        "project document acme/thesis",
        ":4: parameters.urls",
        "--no-validate",
    ] {
        assert!(error.contains(part), "{error}");
    }
    put(&broken.replace("urls", "url"), &[]).assert(0, "");
    put(broken, &["--no-validate"]).assert(0, "");
    until(SOON, "it is there", || {
        let listed = world.lease(&["document", "list", "--json"]).stdout;
        listed.contains("tools/fake.yaml").then_some(())
    });
}
