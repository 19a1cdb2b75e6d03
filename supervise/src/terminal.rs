//! Which process group has the terminal.

use std::{io::IsTerminal, os::fd::OwnedFd, thread};

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::{
    fs::{FileType, Mode, OFlags, fstat, open},
    io::Errno,
    process::{Pid, Signal, test_kill_process_group},
    stdio::{stderr, stdout},
    termios::{tcgetpgrp, tcsetpgrp},
};

/// The terminal that the wrapper was started from, shared between its group and the child's.
#[derive(Debug)]
pub(super) struct Terminal {
    tty: OwnedFd,
    wrapper: Pid,
    child: Pid,
}

impl Terminal {
    /// `None` when the session has no terminal.
    pub(super) fn open(wrapper: Pid, child: Pid) -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let tty = open("/dev/tty", flags, Mode::empty()).ok()?;
        Some(Self {
            tty,
            wrapper,
            child,
        })
    }

    /// Whether the child should have the terminal before it asks for it.
    ///
    /// Not in a pipeline: in `lease run … | less` it is `less` that reads the keys.
    pub(super) fn is_wanted_at_once() -> bool {
        let is_pipe = |stat: rustix::io::Result<rustix::fs::Stat>| {
            stat.is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::Fifo)
        };
        std::io::stdin().is_terminal() && !is_pipe(fstat(stdout())) && !is_pipe(fstat(stderr()))
    }

    /// Gives the terminal to the child if the wrapper has it, and says whether the child has it now.
    pub(super) fn give_to_child(&self) -> bool {
        match tcgetpgrp(&self.tty) {
            Ok(group) if group == self.wrapper => self.set_foreground(self.child),
            Ok(group) => group == self.child,
            Err(_) => false,
        }
    }

    /// Whether the child has the terminal.
    pub(super) fn is_with_child(&self) -> bool {
        tcgetpgrp(&self.tty) == Ok(self.child)
    }

    /// Gives the terminal to the wrapper's group if the child has it, or nobody does (a job of a
    /// shell that was killed). It is not taken from anybody else, such as the user's shell.
    pub(super) fn give_back(&self) {
        let Ok(group) = tcgetpgrp(&self.tty) else {
            return;
        };
        let is_nobody = || test_kill_process_group(group) == Err(Errno::SRCH);
        if group != self.wrapper && (group == self.child || is_nobody()) {
            self.set_foreground(self.wrapper);
        }
    }

    /// Sets the foreground group from the background, for which the kernel would stop us with
    /// SIGTTOU. Ignoring that signal would be handed down to the child, so it is blocked, in a thread
    /// of its own that starts no process.
    fn set_foreground(&self, group: Pid) -> bool {
        let set = || {
            let mut blocked = SigSet::empty();
            blocked.add(NixSignal::SIGTTOU);
            blocked.thread_block().is_ok() && tcsetpgrp(&self.tty, group).is_ok()
        };
        thread::scope(|scope| scope.spawn(set).join().unwrap_or(false))
    }
}

/// Whether the kernel stops a process with this signal for using a terminal it does not have.
pub(super) fn asks_for_terminal(signal: Signal) -> bool {
    signal == Signal::TTIN || signal == Signal::TTOU
}
