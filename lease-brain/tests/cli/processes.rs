//! An observer of processes that knows nothing of leases and guardians.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{SOON, until};

const MARK: &str = "LEASE_CLI_TEST_MARK";

/// Five sleepers below a shell: one in its group, three in sessions of their own, two of these without parent.
pub(crate) const DESCENDANTS: &str = "sleep 300 & setsid sleep 301 & \
    (setsid sh -c 'sleep 302 & exec sleep 303' &); (setsid sleep 304 &)";

/// A name for everything one test starts, found again in the processes' environment.
pub(crate) struct Mark(String);

impl Mark {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}-{number}", std::process::id()))
    }

    pub(crate) fn put_on(&self, command: &mut Command) {
        command.env(MARK, &self.0);
    }

    /// Names and numbers of the living processes with this mark, `lease` and its guardian left out.
    pub(crate) fn living(&self) -> Vec<(String, i32)> {
        let all = self.all().into_iter();
        all.filter(|(name, _)| name != "lease").collect()
    }

    fn all(&self) -> Vec<(String, i32)> {
        let mark = format!("{MARK}={}", self.0);
        let entries = fs::read_dir("/proc").unwrap();
        let marked = entries.filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            // Empty once the process has ended, collected or not.
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|it| it == mark.as_bytes()).then_some(pid)
        });
        marked
            .filter_map(|pid| {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
                Some((name.trim().to_owned(), pid))
            })
            .collect()
    }

    #[track_caller]
    pub(crate) fn await_sleepers(&self, count: usize) {
        until(SOON, "the sleepers", || {
            let living = self.living();
            let sleepers = living.iter().filter(|(name, _)| name == "sleep");
            (sleepers.count() == count).then_some(())
        });
    }

    /// Kills `lease` and its guardian with -9, neither of which sees the other go.
    pub(crate) fn kill_lease(&self) {
        let all = self.all().into_iter();
        let ours: Vec<i32> = all
            .filter(|(name, _)| name == "lease")
            .map(|(_, pid)| pid)
            .collect();
        assert_eq!(ours.len(), 2, "a wrapper and its guardian");
        for number in [Signal::STOP, Signal::KILL] {
            ours.iter().for_each(|pid| signal(*pid, number));
        }
    }

    /// One of the processes has been stopped by a signal.
    #[track_caller]
    pub(crate) fn await_stopped(&self) {
        let is_stopped = |(_, pid): &(String, i32)| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        until(SOON, "one that is stopped", || {
            self.living().iter().any(is_stopped).then_some(())
        });
    }

    #[track_caller]
    pub(crate) fn await_none(&self) {
        let none = || self.living().is_empty().then_some(());
        until(SOON, "nothing lives", none);
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        for (_, pid) in self.all() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

/// Waits until the process has a handler for this signal.
#[track_caller]
pub(crate) fn await_handler(pid: i32, signal: Signal) {
    until(SOON, "its signal handler", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let caught = status.lines().find_map(|it| it.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        (caught >> (signal.as_raw() - 1) & 1 == 1).then_some(())
    });
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}
