//! What the guardian does until all are gone.

use std::{io, os::unix::net::UnixStream, time::Duration};

use rustix::process::{Pid, Signal};
use tokio::{
    io::{BufReader, Lines},
    select,
    signal::unix::SignalKind,
    time::{Instant, sleep},
};

use crate::{
    BootInstant, Deadlines,
    family::Family,
    protocol::{Cause, FromGuardian, Status, ToGuardian, parse, send},
    signals::Listener,
    terminal::{Terminal, asks_for_terminal},
};

/// The longest time without a look at the clock: timers stand still while the machine is suspended.
const CLOCK_PERIOD: Duration = Duration::from_millis(200);
/// The same where there is no deadline: all that happens then announces itself.
const IDLE_PERIOD: Duration = Duration::from_secs(60);
/// How often to look whether all are gone; a grandchild's end is not announced.
const END_PERIOD: Duration = Duration::from_millis(20);
/// What the child leaves running when it ends by itself has this long at most: its slot is waited for.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

type Reader = Lines<BufReader<tokio::net::UnixStream>>;

pub(super) struct Signals {
    child: Listener,
    end: [Listener; 3],
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            child: Listener::always(SignalKind::child())?,
            end: [
                Listener::unless_ignored(SignalKind::hangup())?,
                Listener::unless_ignored(SignalKind::interrupt())?,
                Listener::unless_ignored(SignalKind::terminate())?,
            ],
        })
    }
}

enum Phase {
    Running,
    /// All have been asked to end.
    Ending {
        cause: Cause,
        kill_at: BootInstant,
    },
}

pub(super) struct Guardian {
    family: Family,
    terminal: Option<Terminal>,
    deadlines: Deadlines,
    phase: Phase,
    status: Option<Status>,
    /// Whether a child, or an orphan given to the guardian, has died since `reaped_at`.
    child_died: bool,
    reaped_at: Instant,
    writer: UnixStream,
}

impl Guardian {
    pub(super) fn new(
        child: Pid,
        deadlines: Deadlines,
        group: Option<Pid>,
        writer: UnixStream,
    ) -> Self {
        let terminal = group.and_then(|group| Terminal::open(group, child));
        let guardian = Self {
            family: Family::new(child),
            terminal,
            deadlines,
            phase: Phase::Running,
            status: None,
            child_died: false,
            reaped_at: Instant::now(),
            writer,
        };
        // A child stopped for having been quicker goes on in `child_stopped`.
        if let Some(terminal) = &guardian.terminal
            && Terminal::is_wanted_at_once()
        {
            terminal.give_to_child();
        }
        guardian
    }

    pub(super) async fn run(mut self, mut reader: Reader, mut signals: Signals) {
        let mut wrapper_lives = true;
        while let Some(pause) = self.advance() {
            let [hangup, interrupt, terminate] = &mut signals.end;
            select! {
                line = reader.next_line(), if wrapper_lives => match parse(line) {
                    Some(message) => self.obey(message),
                    None => {
                        wrapper_lives = false;
                        self.end(Cause::Wrapper, self.deadlines.grace());
                    }
                },
                () = signals.child.heard() => self.child_died = true,
                // Everything is being shut down; the child is told in the same words whatever it was.
                () = hangup.heard() => self.end(Cause::Child, self.deadlines.grace()),
                () = interrupt.heard() => self.end(Cause::Child, self.deadlines.grace()),
                () = terminate.heard() => self.end(Cause::Child, self.deadlines.grace()),
                () = sleep(pause) => {}
            }
        }
    }

    fn obey(&mut self, message: ToGuardian) {
        match message {
            // Once asked to end, the child will: a late extension cannot take that back.
            ToGuardian::Extend(deadlines) if matches!(self.phase, Phase::Running) => {
                self.deadlines = deadlines;
            }
            ToGuardian::Extend(_) | ToGuardian::Start { .. } => {}
            ToGuardian::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    self.family.signal_group(signal);
                    // One who is to end must be able to obey.
                    if matches!(
                        signal,
                        Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT
                    ) {
                        self.family.signal_group(Signal::CONT);
                    }
                }
            }
            ToGuardian::End => self.end(Cause::Wrapper, self.deadlines.grace()),
            ToGuardian::Resumed => self.wrapper_resumed(),
        }
    }

    /// Does what is due now. Returns how long to wait for events at most, `None` when all are gone.
    fn advance(&mut self) -> Option<Duration> {
        // First, or a child killed by a wrapper that had to step in would seem to have died by itself.
        if matches!(self.phase, Phase::Running) && self.deadlines.term_at.has_passed() {
            self.end(Cause::Deadline, self.deadlines.grace());
        }
        self.look_at_child();
        // Reading the process table costs, and some builds leave orphans by the hundred.
        if self.child_died && self.reaped_at.elapsed() >= CLOCK_PERIOD {
            self.child_died = false;
            self.reaped_at = Instant::now();
            self.family.reap_adopted();
        }
        let Phase::Ending { cause, kill_at } = self.phase else {
            // Long-lived children are many, and shall cost nothing while they do nothing.
            let is_idle = self.deadlines.are_never() && !self.child_died;
            let period = if is_idle { IDLE_PERIOD } else { CLOCK_PERIOD };
            return Some(self.deadlines.term_at.remaining().min(period));
        };
        if kill_at.has_passed() {
            self.family.kill();
        }
        let Some(status) = self.status.filter(|_| self.family.is_gone()) else {
            // A zero wait is never asked for: killed processes need the processor to end.
            let until_kill = kill_at.remaining();
            let is_early = !until_kill.is_zero() && until_kill < END_PERIOD;
            return Some(if is_early { until_kill } else { END_PERIOD });
        };
        if let Some(terminal) = &self.terminal {
            terminal.give_back();
        }
        let _ = send(&self.writer, &FromGuardian::Ended { status, cause });
        None
    }

    fn look_at_child(&mut self) {
        if self.status.is_some() {
            return;
        }
        self.status = self.family.status();
        if self.status.is_some() {
            self.end(Cause::Child, self.deadlines.grace().min(LEFTOVER_GRACE));
        } else if let Some(signal) = self.family.newly_stopped_by() {
            self.child_stopped(signal);
        }
    }

    /// Asks all to end and sets the time of the kill, never later than the deadline.
    fn end(&mut self, cause: Cause, grace: Duration) {
        if matches!(self.phase, Phase::Running) {
            let kill_at = self.deadlines.kill_at.min(BootInstant::now() + grace);
            self.phase = Phase::Ending { cause, kill_at };
            self.family.terminate();
        }
    }

    fn child_stopped(&self, signal: Signal) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        let asks = asks_for_terminal(signal);
        if asks && terminal.give_to_child() {
            self.family.signal_group(Signal::CONT);
            return;
        }
        // A stop that did not come from the terminal is left as it is.
        if !asks && !terminal.is_with_child() {
            return;
        }
        terminal.give_back();
        let _ = send(&self.writer, &FromGuardian::Stopped);
    }

    fn wrapper_resumed(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.give_to_child();
            self.family.signal_group(Signal::CONT);
        }
    }
}
