//! A child that uses the terminal.

use std::time::Duration;

use rustix::process::Signal;

use crate::{
    run::{FAR, LATE, PROBE, SOON, parent, signal, until},
    screen::{Screen, await_foreground, state},
};

fn probe(command: &str) -> String {
    format!("{PROBE} {FAR} {} keep {command}", FAR + 500)
}

const READ: &str = "sh -c 'read line; echo got $line'";

#[test]
fn child_reads_what_is_typed() {
    let mut screen = Screen::open(&format!("exec {}", probe(READ)));
    screen.type_in("hello\n");
    screen.await_text("got hello");
    assert_eq!(screen.code(), Some(0));
}

#[test]
fn interrupt_key_reaches_the_child_alone() {
    // If the wrapper had it too, it would pass it on: a second one.
    let count = "sh -c 'trap \"echo int\" INT; sleep 300; sleep 300; exit 9'";
    let mut screen = Screen::open(&format!("exec {}", probe(count)));
    await_foreground(screen.child());
    screen.mark.await_sleepers(1);
    screen.type_in("\x03");
    screen.await_text("int\r\n");
    screen.mark.await_sleepers(1);
    screen.type_in("\x03");
    assert_eq!(screen.text_at_end().matches("int\r\n").count(), 2);
}

#[test]
fn interrupted_child_is_reported_as_by_a_shell() {
    let mut screen = Screen::open(&format!("exec {}", probe("sleep 300")));
    await_foreground(screen.child());
    screen.type_in("\x03");
    assert_eq!(screen.code(), Some(130));
}

#[test]
fn terminal_is_given_back() {
    // A shell without job control does not take it by itself.
    let mut screen = Screen::open(&format!("{}; read line; echo then $line", probe("true")));
    screen.type_in("again\n");
    screen.await_text("then again");
}

#[test]
fn terminal_is_given_back_when_the_guardian_is_killed() {
    let mut screen = Screen::open(&format!(
        "{}; read line; echo then $line",
        probe("sleep 300")
    ));
    let child = screen.child();
    await_foreground(child);
    signal(parent(child), Signal::KILL);
    screen.await_text("GuardianDied");
    screen.type_in("again\n");
    screen.await_text("then again");
}

#[test]
fn child_in_a_pipeline_gets_the_terminal_when_it_asks() {
    let mut screen = Screen::open(&format!("{} | cat", probe(READ)));
    screen.type_in("hello\n");
    screen.await_text("got hello");
}

#[test]
fn child_in_a_pipeline_does_not_take_the_terminal() {
    // What reads here is the other end of the pipe.
    let other = "sh -c 'exec </dev/tty; read line; echo other got $line'";
    let mut screen = Screen::open(&format!("{} | {other}", probe("sleep 300")));
    screen.child();
    screen.mark.await_sleepers(1);
    screen.type_in("hello\n");
    screen.await_text("other got hello");
}

#[test]
fn stop_key_stops_the_wrapper_and_fg_goes_on() {
    let mut screen = Screen::open("exec bash --norc --noprofile -i");
    screen.type_in(&format!("{}\n", probe(READ)));
    let child = screen.child();
    await_foreground(child);
    let wrapper = parent(parent(child));

    for _ in 0..2 {
        screen.type_in("\x1a");
        until(
            SOON,
            || "the wrapper stopped, the shell in front".into(),
            || {
                let (state, group, foreground) = state(wrapper);
                (state == "T" && foreground != group && foreground != child).then_some(())
            },
        );
        assert_eq!(state(child).0, "T");
        screen.type_in("fg\n");
        await_foreground(child);
    }
    screen.type_in("hello\n");
    screen.await_text("got hello");
    screen.type_in("exit\n");
    assert_eq!(screen.code(), Some(0));
}

#[test]
fn background_child_waits_for_fg_to_read() {
    let mut screen = Screen::open("exec bash --norc --noprofile -i");
    screen.type_in(&format!("{} &\n", probe(READ)));
    let child = screen.child();
    let wrapper = parent(parent(child));
    until(
        SOON,
        || "the wrapper stopped".into(),
        || (state(wrapper).0 == "T").then_some(()),
    );
    // Bash tells with its next prompt; for what it believes to run, `fg` does not send SIGCONT.
    until(
        SOON,
        || "the shell's word of it".into(),
        || {
            screen.type_in("\n");
            screen.text().contains("Stopped").then_some(())
        },
    );
    screen.type_in("fg\n");
    await_foreground(child);
    screen.type_in("hello\n");
    screen.await_text("got hello");
}

#[test]
fn hang_up_ends_the_child() {
    let mut screen = Screen::open(&format!(
        "exec {}",
        probe("sh -c 'trap \"\" HUP TERM; sleep 300 & wait'")
    ));
    screen.mark.await_sleepers(1);
    screen.script.kill().unwrap();
    screen.mark.await_none(Duration::from_millis(500) + LATE);
}
