//! The wrapper's end of a guardian: started, spoken to, woken and collected.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::PathBuf,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    net::UnixListener,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    select,
    time::{sleep, timeout},
};

use super::{
    SpawnError,
    protocol::{FromGuardian, GUARDIAN_ARGUMENT, ToGuardian, parse, pid, send},
};

/// A guardian that has not connected by then never will; starting a program takes milliseconds.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How often a guardian is woken that does not say anything where it should.
pub(super) const WAKE_PERIOD: Duration = Duration::from_millis(200);

/// A guardian with its child.
#[derive(Debug)]
pub(super) struct Link {
    guardian: Child,
    pub(super) child: Pid,
    pub(super) pipes: Pipes,
    writer: UnixStream,
    reader: Lines<BufReader<tokio::net::UnixStream>>,
}

/// What the guardian was started with, and hands on to the child.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

impl Link {
    /// Starts the guardian, with the environment and the streams that the child is to have, and through
    /// it the child. Nothing runs when this fails or is dropped.
    pub(super) async fn open(
        mut guardian: Command,
        program: &OsStr,
        args: &[OsString],
        start: &ToGuardian,
    ) -> Result<Self, SpawnError> {
        // The folder is for this user only, and gone as soon as both are connected: the guardian removes it
        // as well, in case this process is killed in between.
        let folder = tempfile::Builder::new()
            .prefix("guardian-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir()?;
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket)?;
        guardian.arg(GUARDIAN_ARGUMENT).arg(&socket);
        guardian.arg(program).args(args);
        let mut guardian = guardian.spawn()?;
        // Now: waiting for a process closes its stdin.
        let pipes = Pipes {
            stdin: guardian.stdin.take(),
            stdout: guardian.stdout.take(),
            stderr: guardian.stderr.take(),
        };
        let stream = select! {
            connected = listener.accept() => connected?.0,
            status = guardian.wait() => {
                return Err(io::Error::other(format!("it ended with {}", status?)).into());
            }
            () = sleep(CONNECT_LIMIT) => {
                guardian.start_kill()?;
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
        };
        drop(folder);

        let stream = stream.into_std()?;
        let writer = stream.try_clone()?;
        let mut reader = BufReader::new(tokio::net::UnixStream::from_std(stream)?).lines();
        send(&writer, start)?;
        // The command may stop its guardian before that has said that it started it.
        let first = loop {
            select! {
                biased;
                line = reader.next_line() => break line,
                () = sleep(WAKE_PERIOD) => wake(&guardian),
            }
        };
        let child = match parse(first) {
            Some(FromGuardian::Started { child }) => pid(child),
            Some(FromGuardian::Failed { failure, reason }) => {
                return Err(SpawnError::from_report(failure, reason));
            }
            _ => None,
        };
        let child = child.ok_or_else(|| io::Error::other("it ended before it began"))?;
        Ok(Self {
            guardian,
            child,
            pipes,
            writer,
            reader,
        })
    }

    /// What the guardian says next; `None` when it is gone. Cancel-safe.
    pub(super) async fn hear(&mut self) -> Option<FromGuardian> {
        parse(self.reader.next_line().await)
    }

    /// That the guardian is gone is told by `hear`.
    pub(super) fn tell(&self, message: &ToGuardian) {
        let _ = send(&self.writer, message);
    }

    /// Lets a guardian go on that was stopped. To one that runs, the signal is nothing.
    pub(super) fn wake(&self) {
        wake(&self.guardian);
    }

    /// Waits for the end of a guardian that has reported, and has nothing left to do.
    pub(super) async fn collect(&mut self) {
        let _ = timeout(Duration::from_secs(1), self.guardian.wait()).await;
    }

    /// Makes sure that a guardian is gone that says nothing any more, and its children are others'.
    pub(super) async fn kill_guardian(&mut self) {
        let _ = self.guardian.start_kill();
        let _ = self.guardian.wait().await;
    }
}

/// This program, also when its file was replaced while it runs.
pub(super) fn this_executable() -> PathBuf {
    let named = env::current_exe().ok().filter(|it| it.exists());
    named.unwrap_or_else(|| "/proc/self/exe".into())
}

fn wake(guardian: &Child) {
    if let Some(guardian) = guardian.id().and_then(|id| pid(id.cast_signed())) {
        let _ = kill_process(guardian, Signal::CONT);
    }
}
