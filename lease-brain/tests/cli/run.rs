//! `lease run` when nobody interferes.

use std::{
    io::{BufRead, BufReader},
    sync::mpsc,
    thread,
    time::Duration,
};

use mongodb::bson::doc;
use rustix::process::Signal;

use crate::{
    processes::{await_handler, signal},
    running::{Running, State},
    support::{Output, SOON, World, until},
};

#[tokio::test(flavor = "multi_thread")]
async fn commands_own_end_is_passed_through_and_the_slot_comes_back() {
    let world = World::with_pdf(60).await;
    let cases = [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 76", 76),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ];
    for (script, code) in cases {
        let output = world.lease(&["run", "pdf", "--wait", "0s", "--", "sh", "-c", script]);
        output.assert(code, "");
        assert_eq!(output.stdout, "");
    }
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn command_that_cannot_be_executed_is_named() {
    let world = World::with_pdf(60).await;
    for (command, code, problem) in [
        (
            "no-such-command",
            127,
            "command not found: no-such-command: ",
        ),
        (
            "/etc/passwd",
            126,
            "cannot execute the command: /etc/passwd: ",
        ),
    ] {
        let output = world.lease(&["run", "pdf", "--", command]);
        let error = output.error(code);
        assert!(error.starts_with(problem), "{error}");
    }
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn command_is_told_its_lease_and_talks_on_the_wrappers_streams() {
    let world = World::with_pdf(60).await;
    let script = "read line; echo \"$line $LEASE_RESOURCE $LEASE_TOKEN\"; cat \"$LEASE_STATE_FILE\"; echo oops >&2";
    let mut command = world.command(&["run", "pdf", "--", "sh", "-c", script]);
    let output = Output::given(&mut command, b"hello\n");
    output.assert(0, "oops\n");
    let (first, state) = output.stdout.split_once('\n').unwrap();
    let token = first.strip_prefix("hello pdf ").unwrap();
    let state: serde_json::Value = serde_json::from_str(state).unwrap();
    assert_eq!(
        (&state["token"], &state["resource"]),
        (&token.into(), &"pdf".into())
    );
    let keys: Vec<_> = state.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["checkedAt", "expiresAt", "resource", "state", "token"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn state_file_is_rewritten_at_each_check() {
    let world = World::with_pdf(2).await;
    let mut running = Running::start(&world, &[], "exec sleep 300");
    let first = running.state();
    assert_eq!(first.state, "held");
    let mut last = first.expires.unwrap();
    for _ in 0..3 {
        let next = until(SOON, "a later expiry", || {
            // Read while it is being rewritten: always whole, always there.
            let state = State::read(&running.state_file).expect("a state file");
            (state.expires.unwrap() > last + Duration::from_millis(100)).then_some(state)
        });
        assert_eq!((&*next.state, &next.token), ("held", &first.token));
        let life = next.expires.unwrap() - next.checked.unwrap();
        let off = life.abs_diff(Duration::from_secs(2));
        assert!(off < Duration::from_millis(50), "{life:?}");
        last = next.expires.unwrap();
    }
    running.signal(Signal::TERM);
    running.end().assert(143, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_is_held_past_its_time_to_live_for_as_long_as_the_command_runs() {
    let world = World::with_pdf(2).await;
    let mut running = Running::start(&world, &["--holder-ref", "long job"], "sleep 300; exit 4");
    running.mark.await_sleepers(1);
    let token = running.state().token;
    // Three times to live by the server's own count of checks, three a time to live.
    let beats = async || {
        let holder = world.holders().find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(holder.get_str("_id").unwrap(), token);
        holder
            .get_i64("beats")
            .unwrap_or_else(|_| holder.get_i32("beats").unwrap().into())
    };
    let far = beats().await + 9;
    test_mongo::eventually("nine checks", SOON, || async { Ok(beats().await >= far) })
        .await
        .unwrap();
    let busy = world.lease(&["acquire", "pdf", "--user", "bob", "--wait", "0s"]);
    assert!(busy.error(75).contains("long job"), "{busy:?}");
    let shown = world.lease(&["list", "--state", "held", "--json"]).json();
    assert_eq!(shown[0]["token"], token.as_str());

    // The shell's own end, not the lease's.
    let sleeper = running.mark.living().into_iter().find(|it| it.0 == "sleep");
    signal(sleeper.unwrap().1, Signal::TERM);
    assert_eq!(running.end().code, Some(4));
    world.acquire(&["pdf", "--user", "bob", "--wait", "0s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_grace_of_ages_is_refused_like_any_that_is_too_long() {
    let world = World::with_pdf(8).await;
    let ages = ["run", "pdf", "--kill-grace", "500000000000y", "--", "true"];
    let output = world.lease(&ages);
    let error = output.error(78);
    assert!(error.ends_with("pass a shorter --kill-grace"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_grace_that_is_too_long_is_refused_before_any_wait() {
    let world = World::with_pdf(8).await;
    world.acquire(&["pdf"]);
    let output = world.lease(&[
        "run",
        "pdf",
        "--kill-grace",
        "3s",
        "--wait",
        "20m",
        "--",
        "true",
    ]);
    assert_eq!(
        output.error(78),
        "the lease's time to live (8s) is below three times the kill grace (3s): raise ttlSeconds in its definition, or \
         pass a shorter --kill-grace"
    );
    // Refused for its wait alone.
    let args = [
        "run",
        "pdf",
        "--kill-grace",
        "2600ms",
        "--wait",
        "0s",
        "--",
        "true",
    ];
    world.lease(&args).error(75);
}

#[tokio::test(flavor = "multi_thread")]
async fn definition_without_caps_runs_the_command_without_lease() {
    let world = World::new().await;
    world.define("pdf", "ttlSeconds: 2").await;
    let script = "echo \"<$LEASE_TOKEN>\"; cat \"$LEASE_STATE_FILE\"; exit 5";
    // There is no time to live to be too short for the grace.
    let args = ["run", "pdf", "--kill-grace", "5s", "--", "sh", "-c", script];
    let output = world.lease(&args);
    output.assert(5, "");
    assert_eq!(
        output.stdout,
        "<>\n{\"token\":null,\"resource\":\"pdf\",\"state\":\"noop\",\"checkedAt\":null,\"expiresAt\":null}"
    );
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_to_the_wrapper_reach_the_command() {
    let world = World::with_pdf(60).await;
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::USR1, "USR1"),
    ] {
        let script = format!("trap 'exit 7' {name}; sleep 300 & echo ready; wait");
        let mut running = Running::start(&world, &[], &script);
        assert_eq!(running.line(), "ready");
        running.signal(signal);
        assert_eq!(running.end().code, Some(7), "{name}");
    }
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_that_ends_the_command_is_told_by_the_code() {
    let world = World::with_pdf(60).await;
    let mut running = Running::start(&world, &[], "exec sleep 300");
    running.signal(Signal::TERM);
    running.end().assert(143, "");
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_hang_up_stays_ignored_while_waiting_and_in_the_command() {
    let world = World::with_pdf(60).await;
    let token = world.acquire(&["pdf"]);
    // As nohup does it. The command's own hang-up tells whether it was inherited.
    let script = "trap '' HUP; exec lease run pdf --user bob -- sh -c 'kill -HUP $$; exit 6'";
    let waiter = world.shell(script).spawn().unwrap();
    let pid = waiter.id().cast_signed();
    await_handler(pid, Signal::USR2);
    signal(pid, Signal::HUP);
    world.lease(&["release", &token]).assert(0, "");
    Output::of_child(waiter).assert(6, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_of_a_long_wait_says_who_holds_it_and_since_when() {
    let world = World::with_pdf(60).await;
    let token = world.acquire(&["pdf", "--holder-ref", "first"]);
    let mut waiting = world
        .command(&["run", "pdf", "--user", "bob", "--wait", "20m", "--", "true"])
        .spawn()
        .unwrap();
    let log = BufReader::new(waiting.stderr.take().unwrap());
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        log.lines()
            .for_each(|line| sender.send(line.unwrap()).unwrap())
    });
    let line = lines.recv_timeout(SOON).unwrap();
    let begins = "lease: waiting for pdf: 1 of 1 in use at level global, longest by first (acme/thesis/ada) for ";
    let since = line
        .strip_prefix(begins)
        .unwrap_or_else(|| panic!("{line}"));
    let (held, waited) = since.split_once(" (").unwrap();
    assert!(held.ends_with('s') && held != "0s", "{line}");
    assert!(waited.ends_with("s of 20m)"), "{line}");
    world.lease(&["release", &token]).assert(0, "");
    Output::of_child(waiting).assert(0, "");
    reader.join().unwrap();
    let rest: Vec<_> = lines.iter().collect();
    assert!(rest.is_empty(), "there was nothing more to say: {rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_told_of_a_short_wait_where_no_terminal_is() {
    let world = World::with_pdf(60).await;
    world.acquire(&["pdf", "--holder-ref", "first"]);
    let busy = world.lease(&[
        "run", "pdf", "--user", "bob", "--wait", "1500ms", "--", "echo", "ran",
    ]);
    let error = busy.error(75);
    assert!(
        error.contains("first (acme/thesis/ada)") && error.contains("; waited 1s"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn command_that_stops_its_guardian_ends_as_it_would() {
    let world = World::with_pdf(6).await;
    let output = world.lease(&["run", "pdf", "--", "sh", "-c", "kill -STOP $PPID; exit 3"]);
    assert_eq!(output.code, Some(3), "{output:?}");
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn request_to_end_reaches_a_stopped_command() {
    let world = World::with_pdf(60).await;
    let mut running = Running::start(&world, &[], "kill -STOP $$; exit 3");
    running.mark.await_stopped();
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(128 + 15));
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn command_does_not_get_the_secret_of_operators() {
    let world = World::with_pdf(60).await;
    let mut run = world.command(&["run", "pdf", "--", "env"]);
    run.env("LEASE_INTERNAL_TOKEN", "not-for-everybody")
        .env("LEASE_INTERNAL_TOKEN_FILE", "/not/for/everybody")
        .env("LEASE_JWT_SECRET_FILE", "/not/for/everybody");
    let output = Output::of(&mut run);
    output.assert(0, "");
    assert!(output.stdout.contains("LEASE_TOKEN="), "{output:?}");
    for word in ["INTERNAL", "not-for-everybody", "/not/for/everybody"] {
        assert!(!output.stdout.contains(word), "{output:?}");
    }
}
