//! The guardian's side: start the child, end it in time.

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::{net::UnixStream, process::CommandExt},
    path::Path,
    process::{Command, ExitCode},
    time::Duration,
};

use rustix::process::{Pid, Signal};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    select,
    signal::unix::SignalKind,
    time::{Instant, sleep},
};

use super::{
    BootInstant, Deadlines,
    family::Family,
    protocol::{Cause, FromGuardian, GUARDIAN_ARGUMENT, Status, ToGuardian, parse, pid, send},
    signals::Listener,
    terminal::{Terminal, asks_for_terminal},
};

/// The longest time without a look at the clock: timers stand still while the machine is suspended.
const CLOCK_PERIOD: Duration = Duration::from_millis(200);
/// How often to look whether all are gone; a grandchild's end is not announced.
const END_PERIOD: Duration = Duration::from_millis(20);
/// What the child leaves running when it ends by itself has this long at most: its slot is waited for.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

type Reader = Lines<BufReader<tokio::net::UnixStream>>;

/// Whether this process was started to be a guardian; then `main` calls [`guardian_main`] at once,
/// before it starts any thread or runtime.
pub fn is_guardian() -> bool {
    env::args_os()
        .nth(1)
        .is_some_and(|it| it == GUARDIAN_ARGUMENT)
}

/// Guards one child until it and all its descendants are gone.
pub fn guardian_main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.and_then(|it| it.block_on(guard(env::args_os().skip(2)))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lease: the guardian failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn guard(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let usage = || io::Error::other("started without a socket and a command");
    let socket = arguments.next().ok_or_else(usage)?;
    let program = arguments.next().ok_or_else(usage)?;

    let stream = UnixStream::connect(&socket);
    forget_path(Path::new(&socket));
    let stream = stream?;
    let writer = stream.try_clone()?;
    stream.set_nonblocking(true)?;
    let mut reader = BufReader::new(tokio::net::UnixStream::from_std(stream)?).lines();

    let start = parse(reader.next_line().await);
    let Some(ToGuardian::Start { deadlines, group }) = start else {
        return Ok(()); // The wrapper is gone and nothing runs.
    };
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // From here on signals to the guardian end the child; before, they end only the guardian.
    let signals = Signals::listen()?;

    let mut command = Command::new(program);
    let child = match command.args(arguments).process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => {
            let found = error.kind() != io::ErrorKind::NotFound;
            let reason = error.to_string();
            return send(&writer, &FromGuardian::Failed { found, reason });
        }
    };
    let child = child.id().cast_signed();
    // A failure to write means that the wrapper is gone, which the reader tells as well.
    let _ = send(&writer, &FromGuardian::Started { child });
    let child = pid(child).ok_or_else(|| io::Error::other("the child has no number"))?;
    Guardian::new(child, deadlines, pid(group), writer)
        .run(reader, signals)
        .await;
    Ok(())
}

/// Removes the way to the socket once both are connected, whoever comes first. An empty or vanished
/// folder is as good.
pub(super) fn forget_path(socket: &Path) {
    let _ = std::fs::remove_file(socket);
    if let Some(folder) = socket.parent() {
        let _ = std::fs::remove_dir(folder);
    }
}

struct Signals {
    child: Listener,
    end: [Listener; 3],
}

impl Signals {
    fn listen() -> io::Result<Self> {
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

struct Guardian {
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
    fn new(child: Pid, deadlines: Deadlines, group: Option<Pid>, writer: UnixStream) -> Self {
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

    async fn run(mut self, mut reader: Reader, mut signals: Signals) {
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
                }
            }
            ToGuardian::End => self.end(Cause::Wrapper, self.deadlines.grace()),
            ToGuardian::Resumed => self.wrapper_resumed(),
        }
    }

    /// Does what is due now. Returns how long to wait for events at most, `None` when all are gone.
    fn advance(&mut self) -> Option<Duration> {
        self.look_at_child();
        // Reading the process table costs, and some builds leave orphans by the hundred.
        if self.child_died && self.reaped_at.elapsed() >= CLOCK_PERIOD {
            self.child_died = false;
            self.reaped_at = Instant::now();
            self.family.reap_adopted();
        }
        if matches!(self.phase, Phase::Running) && self.deadlines.term_at.has_passed() {
            self.end(Cause::Deadline, self.deadlines.grace());
        }
        let Phase::Ending { cause, kill_at } = self.phase else {
            return Some(self.deadlines.term_at.remaining().min(CLOCK_PERIOD));
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
