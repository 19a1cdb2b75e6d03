//! The wrapper's side: a running child, seen through its guardian.

mod start;

use std::{ffi::OsString, io, os::unix::net::UnixStream, path::PathBuf, time::Duration};

use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::Child,
    select,
    signal::unix::SignalKind,
    time::{Instant, sleep, timeout},
};

use self::start::start_guardian;
use super::{
    Deadlines, Ended, SpawnError,
    family::Family,
    protocol::{FromGuardian, ToGuardian, parse, pid, send},
    signals::Listener,
    terminal::Terminal,
};

const CLOCK_PERIOD: Duration = Duration::from_millis(200);
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
    guardian: Child,
    child: Pid,
    writer: UnixStream,
    reader: Lines<BufReader<tokio::net::UnixStream>>,
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

        let (guardian, stream) = start_guardian(command).await?;
        let stream = stream.into_std()?;
        let writer = stream.try_clone()?;
        let mut reader = BufReader::new(tokio::net::UnixStream::from_std(stream)?).lines();

        let group = getpgrp().as_raw_nonzero().get();
        let scratch = command.scratch.clone();
        let start = ToGuardian::Start {
            deadlines,
            group,
            scratch,
        };
        send(&writer, &start)?;
        // The command may stop its guardian before that has said that it started it.
        let first = loop {
            select! {
                biased;
                line = reader.next_line() => break line,
                () = sleep(CLOCK_PERIOD) => wake(&guardian),
            }
        };
        let child = match parse(first) {
            Some(FromGuardian::Started { child }) => pid(child),
            Some(FromGuardian::Failed { found, reason }) => {
                return Err(match found {
                    false => SpawnError::NotFound(reason),
                    true => SpawnError::NotExecutable(reason),
                });
            }
            _ => None,
        };
        let child = child.ok_or_else(|| io::Error::other("it ended before it began"))?;
        Ok(Self {
            guardian,
            child,
            writer,
            reader,
            deadlines,
            continued,
            suspended_at: None,
            guardian_lost: false,
            ended: None,
        })
    }

    /// The child's process number, which is its process group's too.
    pub fn child(&self) -> Pid {
        self.child
    }

    /// Moves the deadlines. Call it after each successful check, with deadlines counted from when the
    /// check was *sent*. Too late once the child was asked to end.
    pub fn extend(&mut self, deadlines: Deadlines) {
        self.deadlines = deadlines;
        self.tell(&ToGuardian::Extend(deadlines));
    }

    /// Passes a signal on to the child's process group.
    pub fn signal(&mut self, signal: Signal) {
        self.tell(&ToGuardian::Signal(signal.as_raw()));
    }

    /// Ends the run because the lease is lost: SIGTERM now, SIGKILL after the grace.
    pub fn end(&mut self) {
        self.tell(&ToGuardian::End);
    }

    /// Waits until the child and all its descendants are gone.
    ///
    /// Also stops this process together with the child when the user types Ctrl-Z, so keep a call of
    /// it pending. Cancel-safe: nothing is lost when it is dropped and called again.
    pub async fn wait(&mut self) -> Ended {
        loop {
            if let Some(ended) = self.ended {
                // A guardian that has reported has nothing left to do.
                let _ = timeout(Duration::from_secs(1), self.guardian.wait()).await;
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
                line = self.reader.next_line() => match parse(line) {
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
        self.tell(&ToGuardian::Resumed);
    }

    /// Wakes a guardian that was stopped, by the child as well as by anybody else, and steps in for one that should have
    /// reported by now. To one that runs, the signal is nothing.
    fn watch_guardian(&mut self) {
        wake(&self.guardian);
        if self
            .suspended_at
            .is_some_and(|it| it.elapsed() >= STOP_LIMIT)
        {
            self.resume();
        }
        if self.deadlines.kill_at.has_passed() {
            Family::new(self.child).signal_group(Signal::KILL);
        }
    }

    fn pause(&self) -> Duration {
        match self.deadlines.kill_at.remaining() {
            Duration::ZERO => CLOCK_PERIOD,
            remaining => remaining.min(CLOCK_PERIOD),
        }
    }

    /// Kills what a dead guardian has left, at once: from now on nobody else would.
    async fn end_orphans(&mut self) {
        // The stream ends a moment before the kernel gives us the guardian's children.
        let _ = self.guardian.start_kill();
        let _ = self.guardian.wait().await;
        let mut family = Family::new(self.child);
        family.kill();
        while !family.is_gone() {
            sleep(END_PERIOD).await;
            family.kill();
        }
        if let Some(terminal) = Terminal::open(getpgrp(), self.child) {
            terminal.give_back();
        }
        self.ended = Some(Ended::GuardianDied);
    }

    /// That the guardian is gone is told by `wait`, which ends the child then.
    fn tell(&self, message: &ToGuardian) {
        let _ = send(&self.writer, message);
    }
}

/// Lets a guardian go on that was stopped.
fn wake(guardian: &Child) {
    if let Some(guardian) = guardian.id().and_then(|id| pid(id.cast_signed())) {
        let _ = kill_process(guardian, Signal::CONT);
    }
}
