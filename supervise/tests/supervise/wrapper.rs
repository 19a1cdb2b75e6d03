//! The wrapper is killed, stopped, or ends the run.

use std::{
    fs,
    os::unix::process::CommandExt,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::run::{DESCENDANTS, FAR, LATE, Mark, PROBE, Run, SOON, parent, signal, until};

#[test]
fn killed_wrapper_takes_all_descendants_along() {
    // All ignore TERM, so this needs the kill, half a second after the wrapper's death.
    let script = format!("trap '' TERM; {DESCENDANTS}");
    let run = Run::script(FAR, FAR + 500, "keep", &script);
    run.mark.await_sleepers(4);
    let guardian = run.guardian();
    let adopted = run
        .mark
        .living()
        .iter()
        .filter(|it| parent(it.1) == guardian)
        .count();
    assert_eq!(adopted, 2, "the child, and the sleeper without parent");

    signal(run.wrapper_pid(), Signal::KILL);
    run.mark.await_none(Duration::from_millis(500) + LATE);
}

#[test]
fn guardian_is_not_killed_with_the_wrappers_group() {
    let mark = Mark::new();
    let mut probe = mark.command(PROBE);
    let far = FAR.to_string();
    probe.args([&far, &far, "keep", "sleep", "300"]);
    probe.process_group(0);
    let run = Run::of(mark, probe);
    run.mark.await_sleepers(1);
    kill_process_group(Pid::from_raw(run.wrapper_pid()).unwrap(), Signal::KILL).unwrap();
    run.mark.await_none(SOON);
}

#[test]
fn killed_wrapper_leaves_the_child_its_grace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bye");
    let script = format!(
        "trap 'sleep 0.3; echo bye >{}; exit' TERM; sleep 300 & wait",
        file.display()
    );
    let run = Run::script(FAR, 2 * FAR, "let", &script);
    run.mark.await_sleepers(1);
    signal(run.wrapper_pid(), Signal::KILL);
    run.mark.await_none(SOON);
    assert_eq!(fs::read_to_string(file).unwrap(), "bye\n");
}

#[test]
fn stopped_wrapper_finds_the_child_ended_in_time() {
    let script = format!("trap '' TERM; {DESCENDANTS}");
    let run = Run::script(1000, 1500, "keep", &script);
    run.mark.await_sleepers(4);
    signal(run.wrapper_pid(), Signal::STOP);
    let stopped = Instant::now();
    run.mark.await_none(Duration::from_millis(1500) + LATE);
    // The last extension was at most 50 ms old.
    assert!(
        stopped.elapsed() > Duration::from_millis(1000),
        "not before the deadline"
    );

    signal(run.wrapper_pid(), Signal::CONT);
    let report = run.report(SOON);
    assert_eq!(report.code, Some(76));
    assert!(
        report.stderr.contains("DeadlinePassed"),
        "{}",
        report.stderr
    );
}

#[test]
fn lost_lease_ends_all_descendants() {
    let run = Run::script(
        FAR,
        FAR + 300,
        "keep",
        &format!("trap '' TERM; {DESCENDANTS}"),
    );
    run.mark.await_sleepers(4);
    signal(run.wrapper_pid(), Signal::USR1);
    let report = run.report(SOON);
    assert!(report.stderr.contains("OnRequest"), "{}", report.stderr);
}

#[test]
fn signal_to_the_wrapper_reaches_the_child() {
    let run = Run::script(FAR, FAR, "keep", "trap 'exit 7' TERM; sleep 300 & wait");
    run.mark.await_sleepers(1);
    signal(run.wrapper_pid(), Signal::TERM);
    assert_eq!(run.report(SOON).code, Some(7));
}

#[test]
fn process_that_keeps_forking_away_is_caught() {
    // Each lives about a millisecond, in a session of its own.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hydra");
    fs::write(&file, "trap '' TERM; setsid sh $0 & exit").unwrap();
    let script = format!("sh {} & sleep 300", file.display());
    let run = Run::script(FAR, FAR + 100, "keep", &script);
    run.mark.await_sleepers(1);
    let guardian = run.guardian();
    signal(run.wrapper_pid(), Signal::KILL);
    // An observer may look past it as well. The guardian ends when the kernel says it has no child; its
    // environment is gone then, even if nobody has collected it yet.
    let environment = format!("/proc/{guardian}/environ");
    until(
        Duration::from_millis(100) + LATE,
        || "the guardian's end".into(),
        || {
            fs::read(&environment)
                .map_or(true, |it| it.is_empty())
                .then_some(())
        },
    );
    run.mark.await_none(LATE);
}
