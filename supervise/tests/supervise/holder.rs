//! The process that holds a helper behind pipes is killed.

use std::{fs, os::unix::process::CommandExt, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{
    run::{DESCENDANTS, FAR, LATE, Mark, PROBE, Run, SOON, signal},
    screen::{Screen, state},
};

#[test]
fn killed_holder_takes_all_descendants_along() {
    let run = Run::piped(500, &format!("trap '' TERM; {DESCENDANTS}"));
    run.mark.await_sleepers(4);
    signal(run.wrapper_pid(), Signal::KILL);
    run.mark.await_none(Duration::from_millis(500) + LATE);
}

#[test]
fn killed_holder_leaves_a_stopped_helper_its_grace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bye");
    let bye = format!(
        "trap 'echo bye >{}; exit' TERM; sleep 300 & wait",
        file.display()
    );
    let run = Run::piped(FAR, &bye);
    run.mark.await_sleepers(1);
    signal(run.child, Signal::STOP);
    signal(run.wrapper_pid(), Signal::KILL);
    run.mark.await_none(SOON);
    assert_eq!(fs::read_to_string(file).unwrap(), "bye\n");
}

#[test]
fn guardian_is_not_killed_with_the_holders_group() {
    let mark = Mark::new();
    let mut probe = mark.command(PROBE);
    probe.args(["pipe", "500", "sleep", "300"]);
    probe.process_group(0);
    let run = Run::of(mark, probe);
    run.mark.await_sleepers(1);
    kill_process_group(Pid::from_raw(run.wrapper_pid()).unwrap(), Signal::KILL).unwrap();
    run.mark.await_none(SOON);
}

#[test]
fn guardian_stopped_at_the_holders_death_ends_all_once_it_goes_on() {
    let run = Run::piped(500, &format!("trap '' TERM; {DESCENDANTS}"));
    run.mark.await_sleepers(4);
    let guardian = run.guardian();
    signal(guardian, Signal::STOP);
    signal(run.wrapper_pid(), Signal::KILL);
    signal(guardian, Signal::CONT);
    run.mark.await_none(Duration::from_millis(500) + LATE);
}

#[test]
fn helper_has_no_terminal() {
    let screen = Screen::open(&format!("exec {PROBE} pipe 500 sleep 300"));
    let (_, _, foreground) = state(screen.child());
    assert_eq!(foreground, -1);
}

#[test]
fn holder_whose_program_was_replaced_starts_helpers() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("probe");
    fs::copy(PROBE, &program).unwrap();
    let mark = Mark::new();
    let mut probe = mark.command(program.to_str().unwrap());
    probe.args(["pipe", "500", "sleep", "300"]);
    probe.env("PROBE_UNLINKED", "1");
    let run = Run::of(mark, probe);
    assert!(run.child > 0);
    run.mark.await_sleepers(1);
}

#[test]
fn holder_that_is_given_orphans_collects_those_of_a_dead_guardian() {
    let mark = Mark::new();
    let mut probe = mark.command(PROBE);
    let sleepers = "sleep 300 & sleep 301 & wait";
    probe.args(["pipe", "500", "sh", "-c", sleepers]);
    probe.env("PROBE_ADOPTS", "1");
    let run = Run::of(mark, probe);
    run.mark.await_sleepers(2);
    signal(run.guardian(), Signal::KILL);
    let report = run.report(SOON);
    assert!(report.stderr.contains("GuardianDied"), "{}", report.stderr);
    assert!(
        report.stderr.contains("uncollected false"),
        "{}",
        report.stderr
    );
}
