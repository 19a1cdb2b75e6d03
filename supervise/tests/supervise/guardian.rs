//! The guardian itself is killed, stopped, or told to end.

use std::time::Duration;

use rustix::process::Signal;

use crate::run::{DESCENDANTS, FAR, LATE, Run, SOON, signal};

#[test]
fn killed_guardian_is_reported_when_all_descendants_are_gone() {
    let run = Run::script(FAR, FAR, "keep", &format!("trap '' TERM; {DESCENDANTS}"));
    run.mark.await_sleepers(4);
    signal(run.guardian(), Signal::KILL);
    let report = run.report(SOON);
    assert_eq!(report.code, Some(70));
    assert!(report.stderr.contains("GuardianDied"), "{}", report.stderr);
}

#[test]
fn stopped_guardian_does_not_save_the_child() {
    // Nor is another grace given to those out of the wrapper's reach, once the guardian is awake.
    let run = Run::script(1000, 5000, "let", &format!("trap '' TERM; {DESCENDANTS}"));
    run.mark.await_sleepers(4);
    signal(run.guardian(), Signal::STOP);
    let left = Duration::from_millis(5000).saturating_sub(run.started.elapsed());
    run.mark.await_none(left + LATE);
    let report = run.report(SOON);
    assert!(
        report.stderr.contains("DeadlinePassed"),
        "{}",
        report.stderr
    );
}

#[test]
fn signal_to_the_guardian_ends_the_child() {
    for told in [Signal::HUP, Signal::INT, Signal::TERM] {
        let run = Run::script(FAR, 2 * FAR, "keep", "trap 'exit 8' TERM; sleep 300 & wait");
        run.mark.await_sleepers(1);
        signal(run.guardian(), told);
        assert_eq!(run.report(SOON).code, Some(8), "{told:?}");
    }
}
