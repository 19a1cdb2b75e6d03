//! `lease run --on-revoke`: what is left with the lease for a brain to call.

use std::{io::ErrorKind, net::TcpListener, time::Duration};

use mongodb::bson::doc;

use crate::{
    brain::Brain,
    receiver::Receiver,
    running::Running,
    support::{Output, World, bare},
};

const BODY: &str = "{\"state\": \"off\"}";
const NO_HEADER: &str = "--on-revoke-header must be NAME={{secret:NAME}}, for example Authorization={{secret:PLUG}}: a brain \
                         puts in what it has under that name in its --secrets-dir";
const NEVER: &str = "lease: warning: the definition caps nothing, so nothing is held that could be revoked, and the URL \
                     of --on-revoke will never be called\n";

#[test]
fn what_cannot_be_called_is_refused_before_any_traffic() {
    let long_url = format!("https://h/{}", "x".repeat(2048));
    let long_body = "x".repeat(16 * 1024 + 1);
    let many: Vec<String> = (0..17).map(|n| format!("H{n}={{{{secret:A}}}}")).collect();
    let many: Vec<&str> = many
        .iter()
        .flat_map(|header| ["--on-revoke-header", header])
        .collect();
    let long = format!(
        "--on-revoke \"{}…\": must be at most 2048 bytes",
        &long_url[..120]
    );
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "ftp://plug.example/off",
            &[],
            "--on-revoke \"ftp://plug.example/off\": must begin with http:// or https://",
        ),
        (
            "",
            &[],
            "--on-revoke \"\": must be a whole address, as in https://host/path",
        ),
        (
            "plug.example",
            &[],
            "--on-revoke \"plug.example\": must be a whole address, as in https://host/path",
        ),
        (
            "https://ada:hunter2@plug.example/",
            &[],
            "--on-revoke …@…: must have no user and password; a header can name them as a secret",
        ),
        (
            "https://ada:hunter2 @plug.example/",
            &[],
            "--on-revoke …@…: must have no blanks and control characters; percent-encode them",
        ),
        (
            "https://h/#a",
            &[],
            "--on-revoke \"https://h/#a\": must have no fragment (`#…`), which is never sent",
        ),
        (&long_url, &[], &long),
        (
            "https://h/",
            &["--on-revoke-method", "HEAD"],
            "--on-revoke-method \"HEAD\": must be POST, PUT, DELETE, PATCH or GET",
        ),
        (
            "https://h/",
            &["--on-revoke-body", &long_body],
            "--on-revoke-body with 16385 bytes: must be at most 16 KiB",
        ),
        (
            "https://h/",
            &["--on-revoke-header", "Authorization=Bearer hunter2"],
            "--on-revoke-header Authorization=…: must have exactly `{{secret:NAME}}` as its value, for no credential is \
             stored",
        ),
        (
            "https://h/",
            &["--on-revoke-header", "Authorization: Bearer hunter2"],
            NO_HEADER,
        ),
        (
            "https://h/",
            &["--on-revoke-header", "Authorization: Basic aHVudGVyMg=="],
            NO_HEADER,
        ),
        (
            "https://h/",
            &["--on-revoke-header", "Authorization"],
            NO_HEADER,
        ),
        (
            "https://h/",
            &["--on-revoke-header", "Author ization={{secret:A}}"],
            "--on-revoke-header Author…=…: must be named by 1 to 64 letters, digits, `-` and `_`",
        ),
        (
            "https://h/",
            &["--on-revoke-header", "Host={{secret:A}}"],
            "--on-revoke-header Host=…: is set by the call itself",
        ),
        (
            "https://h/",
            &many,
            "--on-revoke-header 17 times: must be at most 16",
        ),
    ];
    for (url, options, problem) in cases {
        // Who asked this server would get another code.
        let begin = [
            "--mongodb-uri",
            "mongodb://127.0.0.1:1",
            "run",
            "pdf",
            "--on-revoke",
            url,
        ];
        let args = [&begin, *options, &["--", "echo", "ran"]].concat();
        assert_eq!(Output::of(&mut bare(&args)).error(64), *problem);
    }
}

#[test]
fn options_of_the_call_need_something_to_call() {
    for option in [
        "--on-revoke-method",
        "--on-revoke-body",
        "--on-revoke-header",
    ] {
        let output = Output::of(&mut bare(&["run", "pdf", option, "x", "--", "true"]));
        assert_eq!(output.code, Some(64), "{output:?}");
        assert!(output.stderr.contains("--on-revoke <URL>"), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_stored_with_the_lease_and_gone_with_its_regular_end() {
    let world = World::with_pdf(60).await;
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/off", receiver.local_addr().unwrap());
    let options = [
        "--on-revoke",
        &url,
        "--on-revoke-method",
        "PUT",
        "--on-revoke-body",
        BODY,
        "--on-revoke-header",
        "Authorization={{secret:PLUG}}",
    ];
    let mut running = Running::start(&world, &options, "exec sleep 300");
    let holder = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    assert_eq!(holder.get_str("type").unwrap(), "webhook");
    assert_eq!(holder.get_str("slotReturn").unwrap(), "AFTER_CLEANUP");
    let payload = doc! {
        "url": &url,
        "method": "PUT",
        "body": BODY,
        "headers": { "authorization": "{{secret:PLUG}}" },
    };
    assert_eq!(holder.get_document("payload").unwrap(), &payload);
    running.signal(rustix::process::Signal::TERM);
    running.end().assert(143, "");
    assert_eq!(world.stored().await, (0, 0));
    receiver.set_nonblocking(true).unwrap();
    assert_eq!(receiver.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_vanished_wrapper_is_left_to_a_brain_and_its_slot_stays_taken() {
    let world = World::with_pdf(6).await;
    let url = "http://127.0.0.1:1/off";
    let mut running = Running::start(&world, &["--on-revoke", url], "exec sleep 300");
    running.kill_wrapper();
    world.age(Duration::from_secs(7)).await;
    let acquire = ["acquire", "pdf", "--user", "bob", "--wait", "0s"];
    world.lease(&acquire).error(75);
    let holder = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    assert_eq!(holder.get_str("state").unwrap(), "REVOKING");
    let payload = doc! { "url": url, "method": "POST" };
    assert_eq!(holder.get_document("payload").unwrap(), &payload);
    assert_eq!(world.stored().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_of_a_command_whose_guardian_was_killed_too_is_made_once_by_one_of_the_brains() {
    let world = World::with_pdf(600).await;
    let receiver = Receiver::answering(200).await;
    let _brains = [Brain::start(&world, "a"), Brain::start(&world, "b")];
    let url = receiver.url("/off");
    let mut running = Running::start(&world, &["--on-revoke", &url], "exec sleep 300");
    running.mark.kill_lease();
    running.kill_wrapper();
    assert_eq!(world.stored().await, (1, 1));
    assert_eq!(receiver.seen().len(), 0);
    world.age(Duration::from_secs(601)).await;
    world.until_nothing_is_stored();
    assert_eq!(receiver.seen().len(), 1);
    running.mark.await_sleepers(1);
    let acquire = ["acquire", "pdf", "--user", "bob", "--wait", "0s"];
    assert_eq!(world.lease(&acquire).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_without_a_call_stays_a_command() {
    let world = World::with_pdf(60).await;
    let mut running = Running::start(&world, &[], "exec sleep 300");
    let holder = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    assert_eq!(holder.get_str("type").unwrap(), "command");
    assert_eq!(holder.get_document("payload").unwrap(), &doc! {});
    running.signal(rustix::process::Signal::TERM);
    running.end().assert(143, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_capped_the_call_is_said_to_be_in_vain() {
    let world = World::new().await;
    world.define("pdf", "ttlSeconds: 60").await;
    let args = [
        "run",
        "pdf",
        "--on-revoke",
        "http://127.0.0.1:1/",
        "--",
        "true",
    ];
    world.lease(&args).assert(0, NEVER);
    assert_eq!(world.stored().await, (0, 0));
    world.lease(&["run", "pdf", "--", "true"]).assert(0, "");
}
