//! Nobody interferes: what the child is given, and what becomes of its end.

use std::{fs, process::Command, time::Duration};

use rustix::process::Signal;

use crate::run::{DESCENDANTS, FAR, LATE, Mark, PROBE, Run, SOON, signal};

#[track_caller]
fn check_code(script: &str, code: i32) {
    let report = Run::script(FAR, FAR, "let", script).report(SOON);
    assert_eq!(report.code, Some(code), "{script}: {}", report.stderr);
}

#[test]
fn end_of_the_child_is_passed_through() {
    check_code("exit 0", 0);
    check_code("exit 3", 3);
    check_code("exit 255", 255);
    check_code("kill -TERM $$", 143);
    check_code("kill -KILL $$", 137);
    // Rust programs ignore this one; the child must not.
    check_code("kill -PIPE $$", 141);
    check_code("test \"$PROBE_GAVE\" = this", 0);
}

#[test]
fn command_that_cannot_be_executed_is_told_apart() {
    let report = Run::start(FAR, FAR, "let", &["no-such-command"]).report(SOON);
    assert_eq!(report.code, Some(127));
    let report = Run::start(FAR, FAR, "let", &["/etc/passwd"]).report(SOON);
    assert_eq!(report.code, Some(126));
}

#[test]
fn child_inherits_no_more_than_without_guardian() {
    let list = ["ls", "-l", "/proc/self/fd"];
    let open = |text: &str| -> Vec<String> {
        let numbers = text
            .lines()
            .filter_map(|it| it.split_once(" -> ")?.0.split(' ').next_back());
        numbers.map(str::to_owned).collect()
    };
    let alone = Command::new(list[0]).args(&list[1..]).output().unwrap();
    let report = Run::start(FAR, FAR, "let", &list).report(SOON);
    assert_eq!(
        open(&report.stdout),
        open(&String::from_utf8_lossy(&alone.stdout))
    );
}

#[test]
fn no_file_is_left_while_the_child_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mark = Mark::new();
    let mut probe = mark.command(PROBE);
    let far = FAR.to_string();
    probe.args([&far, &far, "let", "sleep", "300"]);
    let run = Run::of(mark, {
        probe.env("TMPDIR", folder.path());
        probe
    });
    run.mark.await_sleepers(1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn ignored_hang_up_stays_ignored() {
    let mark = Mark::new();
    let mut shell = mark.command("sh");
    let script =
        format!("trap '' HUP; exec {PROBE} {FAR} {FAR} let sh -c 'kill -HUP $PPID $$; exit 6'");
    shell.args(["-c", &script]);
    assert_eq!(Run::of(mark, shell).report(SOON).code, Some(6));
}

#[test]
fn what_the_child_leaves_running_is_ended() {
    let script = "(setsid sleep 300 &); sleep 301 & exit 4";
    let report = Run::script(FAR, FAR, "let", script).report(SOON);
    assert_eq!(report.code, Some(4));
    // Also when it does not listen. The grace of 300 ms is waited for.
    let script = "trap '' TERM; (setsid sleep 300 &); sleep 301 & exit 4";
    let report = Run::script(FAR, FAR + 300, "let", script).report(SOON);
    assert_eq!(report.code, Some(4));
}

#[test]
fn extensions_keep_the_child_alive() {
    // Three times longer than the first deadline. Under load an extension may be late.
    let report = Run::script(1000, 1500, "keep", "sleep 3; exit 5").report(SOON);
    assert_eq!(report.code, Some(5), "{}", report.stderr);
}

#[test]
fn without_extension_all_are_asked_to_end() {
    let script = "trap 'echo bye; exit 0' TERM; sleep 300 & wait";
    // A shell that is just forking may swallow the request for the sleeper, which is killed then.
    let run = Run::script(2000, 5000, "let", script);
    let report = run.report(SOON);
    assert_eq!((report.code, &*report.stdout), (Some(76), "bye\n"));
    assert!(
        report.stderr.contains("DeadlinePassed"),
        "{}",
        report.stderr
    );
}

#[test]
fn who_ignores_the_request_is_killed_at_the_deadline() {
    let run = Run::script(2000, 2500, "let", &format!("trap '' TERM; {DESCENDANTS}"));
    run.mark.await_sleepers(4);
    let left = Duration::from_millis(2500).saturating_sub(run.started.elapsed());
    run.mark.await_none(left + LATE);
    let report = run.report(SOON);
    assert!(
        report.stderr.contains("DeadlinePassed"),
        "{}",
        report.stderr
    );
}

#[test]
fn stopped_child_can_still_obey() {
    let run = Run::script(
        2000,
        6000,
        "let",
        "trap 'echo bye; exit' TERM; sleep 300 & wait",
    );
    run.mark.await_sleepers(1);
    signal(run.child, Signal::STOP);
    assert_eq!(run.report(SOON).stdout, "bye\n");
}

#[test]
fn stopped_child_that_ignores_the_request_is_killed() {
    let run = Run::script(2000, 3000, "let", "trap '' TERM CONT; sleep 300 & wait");
    run.mark.await_sleepers(1);
    signal(run.child, Signal::STOP);
    assert_eq!(run.report(SOON).code, Some(76));
}
