//! The child with everything it started.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group,
        waitid, waitpgid, waitpid,
    },
};

use super::{
    processes::{Process, children, descendants, group_lives},
    protocol::Status,
};

/// How long to wait for another orphan before the next look at the whole table.
const CHASE: Duration = Duration::from_millis(3);

/// The child and its descendants, whatever group or session they have moved to.
///
/// The process holding this must be their subreaper and have no other children. The child's exit
/// status is left uncollected until all are gone: so long, the kernel gives the number of its group
/// to nobody else.
#[derive(Debug)]
pub(super) struct Family {
    child: Pid,
    reaped: bool,
}

impl Family {
    pub(super) fn new(child: Pid) -> Self {
        let reaped = false;
        Self { child, reaped }
    }

    /// How the child has ended, `None` while it lives.
    pub(super) fn status(&self) -> Option<Status> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.child), how).ok()??;
        let code = status.exit_status().map(Status::Exited);
        code.or_else(|| status.terminating_signal().map(Status::Signalled))
    }

    /// The signal that has stopped the child since this was last asked.
    pub(super) fn newly_stopped_by(&self) -> Option<Signal> {
        let how = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.child), how).ok()??;
        Signal::from_named_raw(status.stopping_signal()?)
    }

    /// Signals the child's process group. That it is gone already is no failure.
    pub(super) fn signal_group(&self, signal: Signal) {
        if !self.reaped {
            let _ = kill_process_group(self.child, signal);
        }
    }

    /// Asks all to end, and lets stopped ones run so that they can.
    pub(super) fn terminate(&self) {
        self.signal_all(Signal::TERM);
        self.signal_all(Signal::CONT);
    }

    /// Kills all that can be found now; what was just being forked is found the next time.
    pub(super) fn kill(&self) {
        self.signal_all(Signal::KILL);
        self.chase();
    }

    /// Kills orphans as fast as they are handed over.
    ///
    /// A process that forks and exits at once is gone from one number to the next before the whole
    /// table is read. But each of its parents' deaths makes it our child, and these are read quickly.
    fn chase(&self) {
        let mut seen = HashSet::new();
        let mut last_new = Instant::now();
        while last_new.elapsed() < CHASE {
            let orphans = || children().into_iter().filter(|it| *it != self.child);
            if orphans().next().is_none() {
                return;
            }
            for orphan in orphans() {
                let _ = kill_process(orphan, Signal::KILL);
                let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
                if seen.insert(orphan) {
                    last_new = Instant::now();
                }
            }
            // Some may be out of our power; they must not cost a whole processor.
            thread::sleep(Duration::from_micros(50));
        }
    }

    fn signal_all(&self, signal: Signal) {
        self.signal_group(signal);
        let group = self.child.as_raw_nonzero().get();
        for process in self.living() {
            // The group has had it: a second TERM tells some programs to end without cleaning up.
            if self.reaped || process.group != group {
                let _ = kill_process(process.pid, signal);
            }
        }
    }

    fn living(&self) -> impl Iterator<Item = Process> {
        descendants(getpid()).into_iter().filter(|it| !it.gone)
    }

    /// Collects descendants that have ended after losing their parents.
    pub(super) fn reap_adopted(&self) {
        let me = getpid().as_raw_nonzero().get();
        for process in descendants(getpid()) {
            if process.gone && process.parent == me && process.pid != self.child {
                let _ = waitpid(Some(process.pid), WaitOptions::NOHANG);
            }
        }
    }

    /// Whether the child and all its descendants are gone.
    ///
    /// The table is only read to see whether it is worth asking; the answer comes from the kernel:
    /// a subreaper without children has no descendants.
    pub(super) fn is_gone(&mut self) -> bool {
        if self.living().next().is_some() || !self.group_is_gone() {
            return false;
        }
        self.reaped = true;
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Whether anybody of the child's group lives: what can be asked by a process that has other children as well
    /// and is not their subreaper.
    pub(super) fn group_lives(&self) -> bool {
        group_lives(self.child)
    }

    /// Collects the group's dead that were given to this process all the same: the first process of a container
    /// gets every orphan.
    pub(super) fn collect_group(&self) {
        while let Ok(Some(_)) = waitpgid(self.child, WaitOptions::NOHANG) {}
    }

    #[cfg(target_os = "linux")]
    fn group_is_gone(&self) -> bool {
        true
    }

    /// Without a process table the group has to be asked; one with nobody but a dead leader refuses.
    #[cfg(not(target_os = "linux"))]
    fn group_is_gone(&self) -> bool {
        self.reaped || rustix::process::test_kill_process_group(self.child).is_err()
    }
}
