//! `lease run` on a terminal: `script` of util-linux.

use std::{
    io::{Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use rustix::process::Signal;

use crate::{
    brain::NO_POD,
    processes::{Mark, signal},
    support::{LEASE, SOON, World, until},
};

/// A terminal with a `lease` command in it.
struct Screen {
    mark: Mark,
    script: Child,
    keys: ChildStdin,
    text: Arc<Mutex<String>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Screen {
    fn open(world: &World, arguments: &str) -> Self {
        let mark = Mark::new();
        let mut script = Command::new("script");
        let environment = world.command(&[]);
        let set = environment
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        script
            .envs(set)
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm");
        mark.put_on(&mut script);
        script.args(["-qec", &format!("exec {LEASE} {arguments}"), "/dev/null"]);
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = script.spawn().unwrap();
        let keys = script.stdin.take().unwrap();
        let mut output = script.stdout.take().unwrap();
        let text = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let piece = String::from_utf8_lossy(&bytes[..count]);
                shown.lock().unwrap().push_str(&piece);
            }
        });
        Self {
            mark,
            script,
            keys,
            text,
            reader: Some(reader),
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    #[track_caller]
    fn await_text(&self, part: &str) -> String {
        until(SOON, part, || {
            let text = self.text.lock().unwrap().clone();
            text.contains(part).then_some(text)
        })
    }

    #[track_caller]
    fn code(&mut self) -> Option<i32> {
        until(SOON, "the end", || self.script.try_wait().unwrap()).code()
    }

    /// All that was shown until its end.
    #[track_caller]
    fn whole(&mut self) -> String {
        self.code();
        self.reader.take().unwrap().join().unwrap();
        self.text.lock().unwrap().clone()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn command_reads_what_is_typed() {
    let world = World::with_pdf(60).await;
    let mut screen = Screen::open(&world, "run pdf -- sh -c 'read line; echo got $line'");
    screen.type_in("hello\n");
    screen.await_text("got hello");
    assert_eq!(screen.code(), Some(0));
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupt_key_ends_the_command_and_frees_the_slot() {
    let world = World::with_pdf(60).await;
    let mut screen = Screen::open(&world, "run pdf -- sh -c 'echo ready; exec sleep 300'");
    screen.await_text("ready");
    screen.type_in("\x03");
    assert_eq!(screen.code(), Some(130));
    screen.mark.await_none();
    assert_eq!(world.stored().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_waited_for_is_shown_and_the_interrupt_key_ends_the_wait() {
    let world = World::with_pdf(60).await;
    world.acquire(&["pdf", "--holder-ref", "first job"]);
    let mut screen = Screen::open(&world, "run pdf --user bob --wait 20m -- echo ran");
    screen.await_text(
        "for pdf: 1 of 1 in use at level global, longest by first job (acme/thesis/ada)",
    );
    screen.type_in("\x03");
    assert_eq!(screen.code(), Some(130));
    let text = screen.await_text("lease: stopped while waiting; nothing is held");
    assert!(!text.contains("ran\r\n"), "{text}");
    assert_eq!(world.stored().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_of_a_busy_lease_says_where_to_look_next_on_a_terminal_and_not_to_scripts() {
    let world = World::with_pdf(60).await;
    let token = world.acquire(&["pdf"]);
    let look = "lease: who holds it is shown by `lease list --resource pdf`, how full each level is by `lease counters --resource \
                pdf`\r\n";
    for command in ["acquire pdf --wait 0s", "run pdf --wait 0s -- true"] {
        let mut screen = Screen::open(&world, command);
        let text = screen.whole();
        assert!(text.ends_with(look), "{text}");
        assert_eq!(screen.code(), Some(75));
    }
    let whole = Screen::open(&world, "acquire pdf --wait 0s --json").whole();
    assert!(
        whole.contains("LEASE_BUSY") && !whole.contains("lease list"),
        "{whole}"
    );
    // For scripts it is one line.
    world.lease(&["acquire", "pdf", "--wait", "0s"]).error(75);

    world.fail_cleanup(&token, "plug answered 500").await;
    let whole = Screen::open(&world, "acquire pdf --wait 0s").whole();
    assert!(
        whole.ends_with(", what awaits its clean-up by `lease cleanup list`\r\n"),
        "{whole}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_terminal_ends_command_and_lease() {
    let world = World::with_pdf(60).await;
    let screen = Screen::open(&world, "run pdf -- sh -c 'echo ready; sleep 300'");
    screen.await_text("ready");
    signal(screen.script.id().cast_signed(), Signal::KILL);
    screen.mark.await_none();
    test_mongo::eventually("the slot is back", SOON, || async {
        Ok(world.stored().await == (0, 0))
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn force_asks_first_and_does_nothing_without_a_yes() {
    let world = World::with_pdf(60).await;
    let token = world.acquire(&["pdf"]);
    for (answer, code, stored) in [("\n", 1, (1, 1)), ("n\n", 1, (1, 1)), ("y\n", 79, (1, 0))] {
        let mut screen = Screen::open(&world, &format!("revoke {token} --force"));
        screen
            .await_text("at once, although its command may still run until its next check? [y/N] ");
        screen.type_in(answer);
        assert_eq!(screen.code(), Some(code), "{answer:?}");
        screen.await_text(match code {
            1 => "lease: not confirmed, so nothing was done",
            _ => "the slot is free; it has no handler; its command may still run until its next check",
        });
        assert_eq!(world.stored().await, stored, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn table_is_not_cut_on_a_terminal_that_has_no_width() {
    let world = World::with_pdf(60).await;
    let token = world.acquire(&["pdf", "--holder-ref", "first job"]);
    let screen = Screen::open(&world, "list");
    screen.await_text(&token);
    screen.await_text("first job");
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_of_all_that_failed_shows_them_and_asks_first() {
    let world = World::with_pdf(600).await;
    let token = world.webhook("ada", "http://127.0.0.1:1/", NO_POD).await;
    world.fail_cleanup(&token, "plug answered 500").await;
    let failed = || world.lease(&["counters", "--json"]).json()[0]["failed"].clone();
    for (keys, code, left) in [("\n", 1, 1), ("y\n", 0, 0)] {
        let mut screen = Screen::open(&world, "cleanup retry --all-failed");
        screen.await_text("Try these 1 again now? [y/N] ");
        screen.await_text("plug answered 500");
        screen.type_in(keys);
        assert_eq!(screen.code(), Some(code), "{keys:?}");
        assert_eq!(failed(), left, "{keys:?}");
    }
    world.fail_cleanup(&token, "plug answered 500").await;
    let mut screen = Screen::open(&world, "cleanup retry --all-failed --yes");
    let text = screen.await_text(" is tried again now");
    assert!(!text.contains("[y/N]"), "{text}");
    assert_eq!(screen.code(), Some(0));
}
