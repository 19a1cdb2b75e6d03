//! What is said of a server that is not there, and never of the password to it.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{Output, SOON, World, bare};

/// In pieces, for a part of it would be too much as well.
const SECRET: [&str; 2] = ["hunter", "zwei"];

#[track_caller]
fn assert_silent(output: &Output) {
    for part in SECRET {
        let told = output.stderr.contains(part) || output.stdout.contains(part);
        assert!(!told, "the password is told: {output:?}");
    }
}

const TOKEN: &str = "00000000000000000000000000000000";
const AT: &str = "_vance/config/lease/pdf.yaml";

const EVERY_COMMAND: [&[&str]; 22] = [
    &["run", "pdf", "--", "true"],
    &["acquire", "pdf"],
    &["check", TOKEN],
    &["release", TOKEN],
    &["list"],
    &["show", TOKEN],
    &["counters"],
    &["pods"],
    &["definition", "pdf"],
    &["reconcile"],
    &["revoke", TOKEN],
    &["revoke", TOKEN, "--force", "--yes"],
    &["revoke-pod", "some-pod"],
    &["sweep"],
    &["sweep", "--dry-run"],
    &["cleanup", "list"],
    &["cleanup", "retry", TOKEN],
    &["cleanup", "abandon", "--all-failed", "--yes"],
    &["document", "put", "notes"],
    &["document", "get", AT],
    &["document", "list"],
    &["document", "rm", AT],
];

#[test]
fn without_a_server_every_command_says_where_it_looked_and_what_to_do() {
    // A port that was free a moment ago, and stays so while this listener has it without listening.
    let port = test_mongo::free_port().unwrap();
    let uri = format!(
        "mongodb://user:{}%40{}@127.0.0.1:{port}/leases",
        SECRET[0], SECRET[1]
    );
    let started = Instant::now();
    // All at once: each waits two seconds for a server to appear.
    let children = EVERY_COMMAND.map(|args| {
        bare(args)
            .env("LEASE_INTERNAL_TOKEN", crate::brain::SECRET)
            .env("MONGODB_URI", &uri)
            .spawn()
            .unwrap()
    });
    for (args, child) in EVERY_COMMAND.into_iter().zip(children) {
        let output = Output::of_child(child);
        assert_silent(&output);
        let error = output.error(69);
        let starts = format!(
            "LEASE_UNAVAILABLE: no MongoDB answers at 127.0.0.1:{port}: start one there, or name another with \
             --mongodb-uri or MONGODB_URI"
        );
        assert!(error.starts_with(&starts), "{args:?}: {error}");
        assert!(!error.contains("Topology"), "{args:?}: {error}");
    }
    assert!(
        started.elapsed() < SOON.min(Duration::from_secs(25)),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn uri_that_does_not_parse_is_refused_without_a_word_of_it() {
    let [one, two] = SECRET;
    let uris = [
        format!("mongodb://user:{one}@{two}@127.0.0.1:1/"),
        format!("mongodb://user:{one}/{two}@127.0.0.1:1/"),
        format!("mongodb://user:{one}:{two}@127.0.0.1:1/"),
        format!("mongodb://user:{one}?{two}@127.0.0.1:1/"),
        format!("mongodb://user:{one}?{two}=1@127.0.0.1:1/"),
        format!("mongodb://user:{one}#{two}@127.0.0.1:1/"),
        format!("mongodb://user:{one}%{two}@127.0.0.1:1/"),
        format!("mongodb://user:{one}{two}"),
        format!("mongodb://{one}:{two}/"),
        format!("mongo://user:{one}{two}@127.0.0.1:1/"),
        format!("user:{one}:{two}@127.0.0.1"),
        format!("mongodb://user:{one}{two}@127.0.0.1:99999/"),
        format!("mongodb://user:{one}{two}@/leases"),
        format!("mongodb://user:{one}{two}@127.0.0.1:1,,x/"),
        format!("mongodb://user:{one}{two}@127.0.0.1:1/?tls=maybe"),
        format!("mongodb://127.0.0.1:1/?authMechanism={one}{two}"),
        format!("mongodb://127.0.0.1:1/?authMechanismProperties={one}%40{two}"),
        format!("mongodb://127.0.0.1:1/?readPreferenceTags={one}%20{two}"),
        String::new(),
    ];
    for uri in uris {
        for output in [
            Output::of(bare(&["list"]).env("MONGODB_URI", &uri)),
            Output::of(&mut bare(&["list", "--mongodb-uri", &uri])),
        ] {
            assert_silent(&output);
            let error = output.error(64);
            assert!(
                error.starts_with("the MongoDB URI is not usable: "),
                "{uri}: {error}"
            );
            assert!(
                error.contains("mongodb://USER:PASSWORD@HOST:PORT/DATABASE"),
                "{uri}: {error}"
            );
        }
    }
    // Where it gives nothing away the reason is whole.
    let uri = "mongodb://user:x@127.0.0.1:1/?tls=maybe";
    let output = Output::of(bare(&["list"]).env("MONGODB_URI", uri));
    assert!(
        output.error(64).contains("`tls` option must be a boolean"),
        "{output:?}"
    );
}

#[test]
fn what_says_nothing_of_the_store_is_wrong_usage_for_both_commands() {
    let rule = r#"the name of a MongoDB database must be 1 to 63 bytes without blanks and any of / \ . " $"#;
    let dead = "mongodb://127.0.0.1:1/";
    let long = "x".repeat(100_000);
    let begins = |shown: &str| format!("--database (LEASE_DATABASE) \"{shown}\": {rule}");
    for (variable, value, problem) in [
        ("LEASE_DATABASE", "", begins("")),
        ("LEASE_DATABASE", "a.b", begins("a.b")),
        (
            "LEASE_DATABASE",
            &long,
            begins(&format!("{}…", &long[..63])),
        ),
        (
            "MONGODB_URI",
            "",
            "the MongoDB URI is not usable: --mongodb-uri (MONGODB_URI) is empty; it looks like"
                .to_owned(),
        ),
        (
            "MONGODB_URI",
            "mongodb://127.0.0.1:1/a$b",
            "the MongoDB URI is not usable: ".to_owned(),
        ),
    ] {
        let mut command = bare(&["list"]);
        let output = Output::of(command.env("MONGODB_URI", dead).env(variable, value));
        let error = output.error(64);
        assert!(error.starts_with(&problem), "{variable}: {error}");
        let mut brain = brain();
        let output = Output::of(brain.env("MONGODB_URI", dead).env(variable, value));
        assert_eq!((output.code, &*output.stdout), (Some(64), ""), "{output:?}");
        let begins = format!("brain: {problem}");
        assert!(output.stderr.starts_with(&begins), "{variable}: {output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    }
}

#[test]
fn name_that_does_not_resolve_may_do_so_later() {
    let uri = "mongodb+srv://nobody.invalid/";
    let output = Output::of(bare(&["list"]).env("MONGODB_URI", uri));
    let begins = "LEASE_UNAVAILABLE: the name in the MongoDB URI cannot be resolved now: ";
    assert!(output.error(69).starts_with(begins), "{output:?}");
    let output = Output::of(brain().env("MONGODB_URI", uri));
    assert_eq!(output.code, Some(69), "{output:?}");
}

/// The other command, as it is told nothing.
fn brain() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brain"));
    command
        .args(["--listen", "127.0.0.1:0"])
        .env_remove("LEASE_DATABASE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn usage_help_and_refusals_do_not_show_the_uri() {
    let uri = format!("mongodb://user:{}%40{}@127.0.0.1:1/", SECRET[0], SECRET[1]);
    for args in [
        &["--help"][..],
        &["list", "--help"],
        &["list", "--bogus"],
        &["bogus"],
        &[],
    ] {
        assert_silent(&Output::of(
            bare(args)
                .env("LEASE_INTERNAL_TOKEN", crate::brain::SECRET)
                .env("MONGODB_URI", &uri),
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_password_is_not_told() {
    let world = World::new().await;
    let (scheme, rest) = world.mongo.uri().split_once("://").unwrap();
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let uri = format!("{scheme}://user:{}%40{}@{rest}", SECRET[0], SECRET[1]);
    for args in [
        &["list"][..],
        &["acquire", "pdf"],
        &["definition", "pdf"],
        &["document", "list"],
    ] {
        let output = Output::of(world.command(args).env("MONGODB_URI", &uri));
        assert_silent(&output);
        let error = output.error(69).to_lowercase();
        assert!(error.contains("authentication fail"), "{args:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn database_of_the_uri_is_used_unless_another_is_named() {
    let world = World::with_pdf(60).await;
    let name = world.mongo.name();
    let uri = world.mongo.uri();
    let (server, options) = uri.split_once('?').unwrap_or((uri, ""));
    let with_name = format!("{}/{name}?{options}", server.trim_end_matches('/'));
    let mut command = bare(&["acquire", "pdf"]);
    Output::of(command.env("MONGODB_URI", with_name)).assert(0, "");
    assert_eq!(world.stored().await, (1, 1));
}
