//! The wrapper's side: a running child, seen through its guardian.

use std::{ffi::OsString, io, path::PathBuf, time::Duration};

use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group};
use tokio::{
    process::Command,
    select,
    signal::unix::SignalKind,
    time::{Instant, sleep},
};

use super::{
    Deadlines, Ended, SpawnError,
    family::Family,
    link::{Link, WAKE_PERIOD, this_executable},
    protocol::{FromGuardian, Mode, ToGuardian},
    signals::Listener,
    terminal::Terminal,
};

const END_PERIOD: Duration = Duration::from_millis(10);
/// After this long the wrapper was not stopped by its own SIGTSTP, as in a group without a shell.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// What to run.
#[derive(Clone, Debug)]
pub struct ChildCommand {
    /// A path, or a name looked up in `PATH`.
    pub program: OsString,
    /// Its arguments, without the program's name.
    pub args: Vec<OsString>,
    /// Variables added to the inherited environment.
    pub envs: Vec<(OsString, OsString)>,
    /// Variables of the inherited environment that are none of the command's business.
    pub withheld: Vec<OsString>,
    /// A folder to remove when the run is over, also if the calling process is gone by then.
    pub scratch: Option<PathBuf>,
}

/// A running child.
///
/// Dropping this, like the death of the process holding it, ends the child with all its descendants.
#[derive(Debug)]
pub struct Supervised {
    link: Link,
    deadlines: Deadlines,
    continued: Listener,
    suspended_at: Option<Instant>,
    guardian_lost: bool,
    ended: Option<Ended>,
}

impl Supervised {
    /// Starts the guardian, which starts the child.
    ///
    /// Makes the calling process a subreaper, so that it can end what a killed guardian leaves behind.
    /// It then takes every child of this process for a descendant of the run: have no others.
    ///
    /// # Errors
    ///
    /// When the guardian does not start or the command cannot be executed. Nothing runs then, nor when
    /// the future is dropped.
    pub async fn spawn(command: &ChildCommand, deadlines: Deadlines) -> Result<Self, SpawnError> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(io::Error::from)?;
        // Listened to from the start: stopping and going on may be over before `wait` is called.
        let continued = Listener::always(SignalKind::from_raw(Signal::CONT.as_raw()))?;

        let mut guardian = Command::new(this_executable());
        guardian
            .envs(command.envs.iter().map(|(name, value)| (name, value)))
            // Signals to the wrapper's group, such as Ctrl-C or `kill -9 -…`, shall miss the guardian.
            .process_group(0);
        for withheld in &command.withheld {
            guardian.env_remove(withheld);
        }
        let group = getpgrp().as_raw_nonzero().get();
        let scratch = command.scratch.clone();
        let mode = Mode::Terminal { group, scratch };
        let start = ToGuardian::Start { deadlines, mode };
        let link = Link::open(guardian, &command.program, &command.args, &start).await?;
        Ok(Self {
            link,
            deadlines,
            continued,
            suspended_at: None,
            guardian_lost: false,
            ended: None,
        })
    }

    /// The child's process number, which is its process group's too.
    pub fn child(&self) -> Pid {
        self.link.child
    }

    /// Moves the deadlines. Call it after each successful check, with deadlines counted from when the
    /// check was *sent*. Too late once the child was asked to end.
    pub fn extend(&mut self, deadlines: Deadlines) {
        self.deadlines = deadlines;
        self.link.tell(&ToGuardian::Extend(deadlines));
    }

    /// Passes a signal on to the child's process group.
    pub fn signal(&mut self, signal: Signal) {
        self.link.tell(&ToGuardian::Signal(signal.as_raw()));
    }

    /// Ends the run because the lease is lost: SIGTERM now, SIGKILL after the grace.
    pub fn end(&mut self) {
        self.link.tell(&ToGuardian::End);
    }

    /// Waits until the child and all its descendants are gone.
    ///
    /// Also stops this process together with the child when the user types Ctrl-Z, so keep a call of
    /// it pending. Cancel-safe: nothing is lost when it is dropped and called again.
    pub async fn wait(&mut self) -> Ended {
        loop {
            if let Some(ended) = self.ended {
                self.link.collect().await;
                return ended;
            }
            if self.guardian_lost {
                self.end_orphans().await;
                continue;
            }
            let pause = self.pause();
            select! {
                // A report comes before anything else: after it the child's number means nothing.
                biased;
                heard = self.link.hear() => match heard {
                    Some(message) => self.hear(message),
                    None => self.guardian_lost = true,
                },
                () = self.continued.heard() => self.resume(),
                () = sleep(pause) => self.watch_guardian(),
            }
        }
    }

    fn hear(&mut self, message: FromGuardian) {
        match message {
            FromGuardian::Ended { status, cause } => {
                self.ended = Some(Ended::from_report(status, cause));
            }
            FromGuardian::Stopped => {
                self.suspended_at = Some(Instant::now());
                // For the whole group, as the terminal would do: the shell waits for all of a pipeline.
                // Not SIGSTOP, which would stop us for good where no shell is there to go on.
                let _ = kill_current_process_group(Signal::TSTP);
            }
            FromGuardian::Started { .. } | FromGuardian::Failed { .. } => {}
        }
    }

    fn resume(&mut self) {
        self.suspended_at = None;
        self.link.tell(&ToGuardian::Resumed);
    }

    /// Wakes a guardian that was stopped, by the child as well as by anybody else, and steps in for one that should have
    /// reported by now.
    fn watch_guardian(&mut self) {
        self.link.wake();
        if self
            .suspended_at
            .is_some_and(|it| it.elapsed() >= STOP_LIMIT)
        {
            self.resume();
        }
        if self.deadlines.kill_at.has_passed() {
            Family::new(self.link.child).signal_group(Signal::KILL);
        }
    }

    fn pause(&self) -> Duration {
        match self.deadlines.kill_at.remaining() {
            Duration::ZERO => WAKE_PERIOD,
            remaining => remaining.min(WAKE_PERIOD),
        }
    }

    /// Kills what a dead guardian has left, at once: from now on nobody else would.
    async fn end_orphans(&mut self) {
        // The stream ends a moment before the kernel gives us the guardian's children.
        self.link.kill_guardian().await;
        let mut family = Family::new(self.link.child);
        family.kill();
        while !family.is_gone() {
            sleep(END_PERIOD).await;
            family.kill();
        }
        if let Some(terminal) = Terminal::open(getpgrp(), self.link.child) {
            terminal.give_back();
        }
        self.ended = Some(Ended::GuardianDied);
    }
}
