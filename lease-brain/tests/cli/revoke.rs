//! `revoke`: what is said is what is so.

use std::{
    io::{BufRead, BufReader},
    sync::mpsc,
    thread,
};

use mongodb::bson::doc;
use rustix::process::Signal;
use serde_json::json;
use test_mongo::{Mongod, TestMongo};

use crate::{
    brain::{Brain, NO_POD, SECRET, pretend},
    receiver::{Raw, Receiver},
    support::{Output, SOON, World, bare, until},
};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const HANGS: &str = "";

#[tokio::test(flavor = "multi_thread")]
async fn revoked_is_not_called_released_while_its_cleanup_is_pending() {
    let world = World::with_pdf(600).await;
    let brain = Brain::start(&world, "a");
    let receiver = Raw::hanging_after(HANGS).await;
    let token = world
        .webhook("ada", &receiver.url("/off"), &brain.pod)
        .await;
    let follow = format!("lease revoke {token} --wait");

    let first = world.operator(&["revoke", &token, "--reason", "bench 4 is needed"]);
    first.assert(0, "");
    assert_eq!(
        first.stdout,
        format!(
            "{token} revoked, clean-up pending: the slot comes back when its clean-up is done; follow it with `{follow}` or \
             `lease cleanup list`\n"
        )
    );
    let again = world.operator(&["revoke", &token, "--json"]);
    again.assert(0, "");
    assert_eq!(
        again.json(),
        json!({ "token": token, "outcome": "already", "slot": "whenCleanedUp", "cleanup": "pending", "follow": follow })
    );
    let holder = world.holders().find_one(doc! {}).await.unwrap().unwrap();
    let revocation = holder.get_document("revocation").unwrap();
    assert_eq!(revocation.get_str("note").unwrap(), "bench 4 is needed");
    assert_eq!(world.stored().await, (1, 1), "its slot is taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_for_the_slot_to_come_back_has_its_words() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 9 }").await;
    let brain = Brain::start(&world, "a");
    let receiver = Raw::hanging_after(HANGS).await;
    let at_once = world.webhook("ada", &receiver.url("/"), &brain.pod).await;
    world
        .change(&at_once, doc! { "slotReturn": "AT_ONCE" })
        .await;
    let command = world.acquire(&["pdf", "--user", "bob"]);
    for (token, slot, words) in [
        (at_once, "free", "the slot is free"),
        (
            command,
            "whenEnded",
            "the slot comes back when its holder says that it has ended, or its time has run out",
        ),
    ] {
        let now = world.operator(&["revoke", &token, "--json"]);
        now.assert(0, "");
        let facts = now.json();
        assert_eq!(
            (&facts["outcome"], &facts["slot"], &facts["cleanup"]),
            (&json!("now"), &json!(slot), &json!("pending"))
        );
        let again = world.operator(&["revoke", &token]);
        again.assert(0, "");
        let begins = format!(
            "{token} was being revoked already, clean-up pending: {words}; follow it with "
        );
        assert!(again.stdout.starts_with(&begins), "{again:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_revoked_was_not() {
    let world = World::with_pdf(600).await;
    let brain = Brain::start(&world, "a");
    let gone = world.operator(&["revoke", TOKEN]);
    assert_eq!(
        gone.error(76),
        format!(
            "no lease {TOKEN}: it is not held any more; released, or revoked and cleaned up, or never was"
        )
    );
    let token = world
        .webhook("ada", "http://127.0.0.1:1/", &brain.pod)
        .await;
    let other = world.operator(&["revoke", &token, "--if-pod", NO_POD]);
    let pod = &brain.pod;
    assert_eq!(
        other.error(76),
        format!("{token} is held by pod {pod}, not by {NO_POD}: nothing was revoked")
    );
    let other = world.operator(&["revoke", &token, "--if-pod", NO_POD, "--json"]);
    assert_eq!(other.code, Some(76));
    let facts = json!({
        "token": token, "outcome": "otherPod", "slot": null, "cleanup": null, "follow": null, "pod": pod,
    });
    assert_eq!(other.json(), facts);
    let forced = ["revoke", &token, "--if-pod", NO_POD, "--force", "--yes"];
    assert_eq!(world.operator(&forced).error(76), other.error_line());
    world.change(&token, doc! { "state": "PENDING" }).await;
    let acquiring = world.operator(&["revoke", &token]);
    let begins = format!("{token} is still being acquired: nothing was revoked");
    assert!(acquiring.error(75).starts_with(&begins), "{acquiring:?}");
    world.change(&token, doc! { "state": "HELD" }).await;
    world
        .operator(&["revoke", &token, "--if-pod", pod])
        .assert(0, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_tells_each_phase_and_then_that_it_is_released() {
    let world = World::with_pdf(600).await;
    let brain = Brain::start(&world, "a");
    let broken = Receiver::answering(500).await;
    let working = Receiver::answering(200).await;
    let token = world.webhook("ada", &broken.url("/off"), &brain.pod).await;
    let waiting = Following::start(&world, &["revoke", &token, "--wait"]);
    let problem = format!("{} answered 500", broken.host());
    waiting.await_line("lease: revoked");
    let line = waiting.await_line(&format!("waiting: {problem}, next try "));
    assert!(line.ends_with(" of 10m)"), "{line}");
    world
        .change(&token, doc! { "payload.url": working.url("/off") })
        .await;
    let output = waiting.end();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(
        output.stdout,
        format!("{token} released: its clean-up is done\n")
    );
    assert_eq!(working.seen().len(), 1);
    assert_eq!(world.stored().await, (0, 0));

    let token = world.webhook("bob", &working.url("/off"), &brain.pod).await;
    let output = world.operator(&["revoke", &token, "--wait", "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let facts = json!({ "token": token, "outcome": "now", "slot": "free", "cleanup": "done", "follow": null });
    assert_eq!(output.json(), facts);
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_that_ends_before_the_cleanup_says_so_by_its_own_code() {
    let world = World::with_pdf(600).await;
    let brain = Brain::start(&world, "a");
    let hangs = Raw::hanging_after(HANGS).await;
    let token = world.webhook("ada", &hangs.url("/off"), &brain.pod).await;
    let args = ["revoke", &token, "--wait", "--timeout", "1s"];
    let output = world.operator(&args);
    assert_eq!((output.code, &*output.stdout), (Some(80), ""), "{output:?}");
    let running = format!("lease: running on pod {} (", brain.pod);
    assert!(output.stderr.contains(&running), "{output:?}");
    let last = output.stderr.lines().last().unwrap();
    let begins = format!("lease: {token} is revoked, but its clean-up is not done after 1s: ");
    assert!(last.starts_with(&begins), "{output:?}");
    let facts = world.operator(&[&args[..], &["--json"]].concat());
    assert_eq!(facts.code, Some(80));
    assert_eq!(facts.json()["cleanup"], "pending");
    assert_eq!(world.stored().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn brain_that_dies_while_one_waits_is_missed_and_the_next_one_ends_the_wait() {
    let world = World::with_pdf(600).await;
    let mut brain = Brain::start(&world, "a");
    let broken = Receiver::answering(500).await;
    let working = Receiver::answering(200).await;
    let token = world.webhook("ada", &broken.url("/off"), &brain.pod).await;
    let waiting = Following::start(&world, &["revoke", &token, "--wait"]);
    waiting.await_line("waiting: ");
    brain.kill();
    waiting.await_line("; no pod is alive to do it: start a brain");
    let working = doc! { "payload.url": working.url("/off") };
    world.change(&token, working).await;
    let _next = Brain::start(&world, "b");
    let output = waiting.end();
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn outage_of_the_store_leaves_a_revocation_unknown_and_a_wait_goes_on_after_it() {
    let server = Mongod::start().await.unwrap();
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    let world = World { mongo };
    world.define("pdf", "levels: { global: 9 }").await;
    let brain = Brain::start(&world, "a");
    let (broken, working) = (
        Receiver::answering(500).await,
        Receiver::answering(200).await,
    );
    let token = world.webhook("ada", &broken.url("/"), &brain.pod).await;
    let held = world.acquire(&["pdf", "--user", "bob"]);
    let waiting = Following::start(&world, &["revoke", &token, "--wait"]);
    waiting.await_line("waiting: ");

    server.pause().unwrap();
    let mut asked = world.operator_command(&["revoke", &held, "--brain", &brain.endpoint]);
    let asked = asked.spawn().unwrap();
    let seconds = || {
        let line = waiting.await_line("the lease store cannot be asked; what goes on is unknown");
        let (_, seconds) = line.split_once(" (").unwrap();
        let (seconds, _) = seconds.split_once("s of 10m)").unwrap();
        seconds.parse::<u32>().unwrap()
    };
    let (first, second) = (seconds(), seconds());
    assert!((5..=6).contains(&(second - first)), "{first} {second}");
    let unknown = Output::of_child(asked);
    let cure = format!("; it may have been done: `lease show {held}` tells");
    assert!(unknown.error(69).ends_with(&cure), "{unknown:?}");

    server.resume().unwrap();
    waiting.await_line("waiting: ");
    let working = doc! { "payload.url": working.url("/") };
    world.change(&token, working).await;
    let output = waiting.end();
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_is_needed_and_never_told() {
    let world = World::with_pdf(600).await;
    let brain = Brain::start(&world, "a");
    let token = world.acquire(&["pdf"]);
    let missing = world.lease(&["revoke", &token]);
    assert_eq!(
        missing.error(64),
        "no internal token, without which a brain refuses: set LEASE_INTERNAL_TOKEN, or name a file with --internal-token-file"
    );
    let wrong = "another-secret-of-the-tests";
    let refused = Output::of(
        world
            .command(&["revoke", &token])
            .env("LEASE_INTERNAL_TOKEN", wrong),
    );
    assert_eq!(
        refused.error(78),
        format!(
            "the brain at {} refused: the internal token is wrong; the token of LEASE_INTERNAL_TOKEN or --internal-token-file goes with \
             that brain's own",
            brain.endpoint
        )
    );
    let short = Output::of(
        world
            .command(&["sweep"])
            .env("LEASE_INTERNAL_TOKEN", "hunter2"),
    );
    let rule = "LEASE_INTERNAL_TOKEN has 7 bytes: it must have at least 16, as from `openssl rand -hex 16`";
    assert_eq!(short.error(64), rule);
    let file = ["sweep", "--internal-token-file", "/nonexistent/token"];
    let begins = "--internal-token-file /nonexistent/token: ";
    assert!(world.lease(&file).error(64).starts_with(begins));
    let twice = world.operator(&file);
    assert!(
        twice
            .error(64)
            .starts_with("the internal token is given twice")
    );
    let mut odd = world.command(&["sweep"]);
    let odd = Output::of(odd.env("LEASE_INTERNAL_TOKEN", "secret\nof-two-lines"));
    assert_eq!(
        odd.error(64),
        "LEASE_INTERNAL_TOKEN must have letters, digits and punctuation of ASCII only, as from `openssl rand -hex 16`"
    );
    assert_eq!(world.stored().await, (1, 1));

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("  {SECRET}\n")).unwrap();
    let path = file.path().to_str().unwrap();
    let revoked = world.lease(&["revoke", &token, "--internal-token-file", path]);
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    for verb in ["revoke", "revoke-pod", "sweep"] {
        let help = Output::of(bare(&[verb, "--help"]).env("LEASE_INTERNAL_TOKEN", SECRET));
        assert!(!help.stdout.contains(SECRET), "{help:?}");
        assert!(!help.stdout.contains("--internal-token "), "{help:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn brain_that_is_not_there_is_told_apart_from_one_that_does_not_answer() {
    let world = World::with_pdf(600).await;
    let token = world.acquire(&["pdf"]);
    let none = "no brain is alive: start one (`brain`), or name one with --brain; `lease pods` shows who was there. Some verbs have a --force that needs none";
    // One that takes no calls yet.
    pretend(&world, "b", "http://127.0.0.1:1", "STARTING").await;
    for args in [&["revoke", &token][..], &["sweep"], &["revoke-pod", NO_POD]] {
        assert_eq!(world.operator(args).error(69), none, "{args:?}");
    }
    pretend(&world, "b", "http://127.0.0.1:1", "RUNNING").await;
    let long_ago =
        doc! { "$set": { "lastHeartbeatAt": { "$subtract": ["$lastHeartbeatAt", 900_000] } } };
    let its = doc! { "_id": NO_POD };
    world.pods().update_one(its, vec![long_ago]).await.unwrap();
    assert_eq!(world.operator(&["sweep"]).error(69), none, "a dead one");
    let dead = ["revoke", &token, "--brain", "http://127.0.0.1:1"];
    let dead = world.operator(&dead);
    let error = dead.error(69);
    assert!(
        error.starts_with("no brain answers at http://127.0.0.1:1: "),
        "{error}"
    );
    let cure = "; nothing was done: start it, or name another with --brain";
    assert!(error.ends_with(cure), "{error}");
    let odd = [
        "revoke",
        &token,
        "--brain",
        "http://ada:hunter2@brain.example",
    ];
    assert_eq!(
        world.operator(&odd).error(64),
        "--brain \"…@brain.example\" must be the URL of a brain, like http://10.0.0.7:7311"
    );
    let other = Receiver::answering(200).await;
    let other = world.operator(&["revoke", &token, "--brain", &other.url("/")]);
    assert!(
        other
            .error(69)
            .starts_with("what answers at http://127.0.0.1:"),
        "{other:?}"
    );
    let elsewhere = Receiver::answering(307).await;
    let url = elsewhere.url("");
    let redirected = world.operator(&["revoke", &token, "--brain", &url]);
    redirected.error(69);
    assert_eq!(elsewhere.seen().len(), 1, "the secret went elsewhere");
    assert_eq!(world.stored().await, (1, 1));

    let brain = Brain::start(&world, "a");
    brain.signal(Signal::STOP);
    // Named, for it is taken for dead within a second.
    let silent = world.operator(&["revoke", &token, "--brain", &brain.endpoint]);
    let error = silent.error(69);
    let begins = format!("what the brain at {} did is not known: ", brain.endpoint);
    assert!(error.starts_with(&begins), "{error}");
    let cure = format!("; it may have been done: `lease show {token}` tells");
    assert!(error.ends_with(&cure), "{error}");
    brain.signal(Signal::CONT);
    until(SOON, "to repeat it", || {
        let again = world.operator(&["revoke", &token, "--brain", &brain.endpoint]);
        (again.code == Some(0)).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn next_brain_is_asked_where_one_has_just_gone() {
    let world = World::new().await;
    world.define("pdf", "levels: { global: 9 }").await;
    let _brain = Brain::start(&world, "a");
    let token = world.acquire(&["pdf"]);
    // Heard just now, by its row, and the first by name.
    pretend(&world, "0", "http://127.0.0.1:1", "RUNNING").await;
    world.operator(&["revoke", &token]).assert(0, "");

    // Where one may have done it, no other is asked.
    let token = world.acquire(&["pdf", "--user", "bob"]);
    let silent = Raw::hanging_after(HANGS).await;
    pretend(&world, "0", &silent.url(""), "RUNNING").await;
    let unknown = world.operator(&["revoke", &token]);
    assert!(
        unknown.error(69).contains(" did is not known: "),
        "{unknown:?}"
    );
    let held = world.lease(&["list", "--state", "held", "--json"]).json();
    assert_eq!(held[0]["token"], token);

    // One that has been silent for a while is asked last.
    let older =
        doc! { "$set": { "lastHeartbeatAt": { "$subtract": ["$lastHeartbeatAt", 100_000] } } };
    let its = doc! { "_id": NO_POD };
    world.pods().update_one(its, vec![older]).await.unwrap();
    world.operator(&["revoke", &token]).assert(0, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn brain_that_has_not_read_the_store_knows_nothing_and_says_so() {
    let server = Mongod::start().await.unwrap();
    let mongo = TestMongo::at(&server.uri()).await.unwrap();
    let world = World { mongo };
    server.pause().unwrap();
    let listen = format!("127.0.0.1:{}", test_mongo::free_port().unwrap());
    let brain = Brain::launch(&world, "a", &listen, &[]);
    let url = &brain.endpoint;
    let begins = format!("no brain answers at {url}: ");
    let answered = until(SOON, "its answer", || {
        let asked = world.operator(&["revoke", TOKEN, "--brain", url]);
        (!asked.error(69).starts_with(&begins)).then_some(asked)
    });
    let unknown = "this pod has not read the store yet, so it knows nothing: ask again soon";
    assert_eq!(
        answered.error(69),
        format!("the brain at {url} refused: {unknown}")
    );
    server.resume().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_without_an_end_is_not_read_to_it_and_no_proxy_is_asked() {
    let world = World::with_pdf(600).await;
    let pours = Raw::endless().await;
    let output = world.operator(&["sweep", "--brain", &pours.url("")]);
    assert!(
        output.error(69).contains("its answer is too long"),
        "{output:?}"
    );

    let _brain = Brain::start(&world, "a");
    let proxy = Receiver::answering(502).await;
    let mut swept = world.operator_command(&["sweep"]);
    for variable in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        swept.env(variable, proxy.url(""));
    }
    assert_eq!(Output::of(&mut swept).code, Some(0));
    assert_eq!(proxy.seen().len(), 0, "the secret went elsewhere");
}

#[test]
fn what_no_lease_or_pod_is_called_is_refused_without_a_server() {
    let token = "must be 32 lower-case hexadecimal digits, as printed by an acquire";
    let cases: [(&[&str], u8, String); 6] = [
        (
            &["revoke", "abc"],
            78,
            format!("LEASE_INVALID: lease token \"abc\" {token}"),
        ),
        (
            &["cleanup", "retry", TOKEN, "abc"],
            78,
            format!("LEASE_INVALID: lease token \"abc\" {token}"),
        ),
        (
            &["cleanup", "abandon", TOKEN, TOKEN],
            64,
            format!("{TOKEN} is named twice"),
        ),
        (
            &["revoke", TOKEN, "--if-pod", ""],
            78,
            "LEASE_INVALID: pod id \"\" must be 1 to 128 bytes without control characters"
                .to_owned(),
        ),
        (
            &["revoke-pod", "a\x1bb"],
            78,
            "LEASE_INVALID: pod id \"a\\u{1b}b\" must be 1 to 128 bytes without control characters"
                .to_owned(),
        ),
        (
            &["revoke", TOKEN, "--reason", "a\nb"],
            64,
            "--reason must be at most 500 characters without control characters".to_owned(),
        ),
    ];
    for (args, code, problem) in cases {
        let output = Output::of(bare(args).env("MONGODB_URI", "mongodb://127.0.0.1:1"));
        assert_eq!(output.error(code.into()), problem, "{args:?}");
    }
    for args in [
        &["revoke", TOKEN, "--yes"][..],
        &["revoke", TOKEN, "--timeout", "1m"],
        &["revoke", TOKEN, "--force", "--wait"],
        &["revoke", TOKEN, "--internal-token", "hunter2"],
        &["cleanup", "retry"],
        &["cleanup", "abandon", TOKEN, "--all-failed"],
    ] {
        assert_eq!(Output::of(&mut bare(args)).code, Some(64), "{args:?}");
    }
}

/// A command under way whose standard error is read line by line.
pub(crate) struct Following {
    child: std::process::Child,
    lines: mpsc::Receiver<String>,
}

impl Following {
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        let mut child = world.operator_command(args).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in errors.lines() {
                let _ = sender.send(line.unwrap());
            }
        });
        Self { child, lines }
    }

    /// The next line with this in it.
    #[track_caller]
    pub(crate) fn await_line(&self, part: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(SOON) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("no line with {part:?}: {seen:?}"),
            }
        }
    }

    #[track_caller]
    pub(crate) fn end(self) -> Output {
        Output::of_child(self.child)
    }
}
