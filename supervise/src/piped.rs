//! A helper behind pipes that ends with the process holding it, at the latest.

use std::{convert::Infallible, ffi::OsString, fmt, path::PathBuf, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    select,
    sync::oneshot,
    task::JoinHandle,
    time::sleep,
};

use super::{
    BootInstant, Confinement, Deadlines, Ended, SpawnError,
    family::Family,
    link::{Link, Pipes, WAKE_PERIOD, this_executable},
    protocol::{FromGuardian, Mode, ToGuardian},
};

/// How often a guardian is woken while it need not hurry.
const IDLE_PERIOD: Duration = Duration::from_secs(1);
const END_PERIOD: Duration = Duration::from_millis(10);

/// What to run behind pipes.
#[derive(Clone)]
pub struct PipedCommand {
    /// A path, or a name looked up in the `PATH` among `envs`; without one, where the system keeps its
    /// own programs. A relative path starts from `cwd`.
    pub program: OsString,
    /// Its arguments, without the program's name.
    pub args: Vec<OsString>,
    /// Its whole environment: nothing is inherited.
    pub envs: Vec<(OsString, OsString)>,
    /// Where it runs; where this process runs, unless given.
    pub cwd: Option<PathBuf>,
    /// The time between being asked to end and being killed.
    pub grace: Duration,
    /// How long it may run; then its guardian ends it, also while this process stands still. For ever, unless given.
    pub lifetime: Option<Duration>,
    /// The program to be the guardian, whose `main` begins with [`guardian_main`](super::guardian_main); this
    /// one, unless given. A test has to give one: its own `main` would run tests again.
    pub guardian: Option<PathBuf>,
}

/// Shows of the environment only the names: values may be secrets.
impl fmt::Debug for PipedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.envs.iter().map(|(name, _)| name).collect();
        f.debug_struct("PipedCommand")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("envs", &names)
            .field("cwd", &self.cwd)
            .field("grace", &self.grace)
            .field("guardian", &self.guardian)
            .finish()
    }
}

/// A running helper.
///
/// Dropping this, like the death of the process holding it, ends the helper with all its descendants: in
/// the background, within the grace. A process may hold any number, and have other children too.
#[derive(Debug)]
pub struct Piped {
    /// To take; the helper reads its end when this is dropped.
    pub stdin: Option<ChildStdin>,
    /// To take; it ends when the helper and whoever inherited it have closed it or are gone.
    pub stdout: Option<ChildStdout>,
    /// To take and to read: a helper that writes into a full pipe waits.
    pub stderr: Option<ChildStderr>,
    child: Pid,
    /// The helper may run for as long as this exists.
    keep: Option<oneshot::Sender<Infallible>>,
    watch: JoinHandle<Ended>,
    ended: Option<Ended>,
}

impl Piped {
    /// Starts a guardian, which starts the helper.
    ///
    /// # Errors
    ///
    /// When the guardian does not start, the working directory cannot be entered or the program cannot be
    /// executed. Nothing runs then, nor (after the grace at most) when the future is dropped.
    pub async fn spawn(command: &PipedCommand) -> Result<Self, SpawnError> {
        Self::start(command, None).await
    }

    /// As [`spawn`](Self::spawn), with all that the helper and its descendants may touch listed.
    ///
    /// # Errors
    ///
    /// As `spawn`; and [`SpawnError::Confinement`] where the kernel cannot do that. Nothing runs then.
    pub async fn spawn_confined(
        command: &PipedCommand,
        confinement: &Confinement,
    ) -> Result<Self, SpawnError> {
        Self::start(command, Some(confinement.clone())).await
    }

    async fn start(
        command: &PipedCommand,
        confinement: Option<Confinement>,
    ) -> Result<Self, SpawnError> {
        let program = command.guardian.clone().unwrap_or_else(this_executable);
        let mut guardian = Command::new(program);
        guardian
            .env_clear()
            .envs(command.envs.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let cwd = command.cwd.clone().map(PathBuf::into_os_string);
        let start = ToGuardian::Start {
            deadlines: match command.lifetime {
                Some(lifetime) => Deadlines::after(lifetime, command.grace),
                None => Deadlines::never(command.grace),
            },
            mode: Mode::Pipes { cwd, confinement },
        };
        let mut link = Link::open(guardian, &command.program, &command.args, &start).await?;
        let Pipes {
            stdin,
            stdout,
            stderr,
        } = std::mem::take(&mut link.pipes);
        let child = link.child;
        let (keep, kept) = oneshot::channel();
        // It outlives this value by the time the helper takes to end. Should it be dropped itself, with its
        // runtime, the guardian sees the socket close.
        let watch = tokio::spawn(watch(link, command.grace, kept));
        Ok(Self {
            stdin,
            stdout,
            stderr,
            child,
            keep: Some(keep),
            watch,
            ended: None,
        })
    }

    /// The helper's process number, which is its process group's too.
    pub fn child(&self) -> Pid {
        self.child
    }

    /// Ends the helper: SIGTERM now, SIGKILL after the grace. Returns when it and all its descendants are
    /// gone, also when they were before. When this is dropped it goes on ending.
    pub async fn end(&mut self) -> Ended {
        self.keep = None;
        self.wait().await
    }

    /// Waits until the helper and all its descendants are gone. What a helper leaves running that ends by
    /// itself is ended. Cancel-safe.
    pub async fn wait(&mut self) -> Ended {
        if let Some(ended) = self.ended {
            return ended;
        }
        // Only the end of the runtime cuts the watch off, and that is a request to end.
        let ended = (&mut self.watch).await.unwrap_or(Ended::OnRequest);
        self.ended = Some(ended);
        ended
    }
}

/// Asks for the end when `kept` closes, and sees to it when the guardian cannot.
async fn watch(mut link: Link, grace: Duration, mut kept: oneshot::Receiver<Infallible>) -> Ended {
    let mut kill_at: Option<BootInstant> = None;
    loop {
        // A stopped one could neither hear nor tell.
        link.wake();
        let pause = kill_at.map_or(IDLE_PERIOD, |_| WAKE_PERIOD);
        select! {
            // A report comes before anything else: after it the child's number means nothing.
            biased;
            heard = link.hear() => match heard {
                Some(FromGuardian::Ended { status, cause }) => {
                    link.collect().await;
                    return Ended::from_report(status, cause);
                }
                Some(_) => {}
                None => return end_group(link).await,
            },
            _ = &mut kept, if kill_at.is_none() => {
                kill_at = Some(BootInstant::now() + grace);
                link.tell(&ToGuardian::End);
            }
            // It may be that the helper stops it again and again.
            () = sleep(pause) => if kill_at.is_some_and(BootInstant::has_passed) {
                Family::new(link.child).signal_group(Signal::KILL);
            }
        }
    }
}

/// Kills what a dead guardian has left of the child's group, at once: from now on nobody else would.
///
/// Its orphans are not ours: taking them would take those of every other child of this process.
async fn end_group(mut link: Link) -> Ended {
    let family = Family::new(link.child);
    family.signal_group(Signal::KILL);
    link.kill_guardian().await;
    while family.group_lives() {
        family.signal_group(Signal::KILL);
        sleep(END_PERIOD).await;
    }
    family.collect_group();
    Ended::GuardianDied
}
