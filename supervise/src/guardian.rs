//! The guardian's side: start the child and watch over it.

mod watch;

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::{net::UnixStream, process::CommandExt},
    path::Path,
    process::{Command, ExitCode},
};

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use tokio::io::{AsyncBufReadExt, BufReader};

use self::watch::{Guardian, Signals};
use super::protocol::{
    Failure, FromGuardian, GUARDIAN_ARGUMENT, Mode, ToGuardian, parse, pid, send,
};

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
            eprintln!("the guardian failed: {error}");
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
    let Some(ToGuardian::Start { deadlines, mode }) = start else {
        return Ok(()); // The wrapper is gone and nothing runs.
    };
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // From here on signals to the guardian end the child; before, they end only the guardian.
    let signals = Signals::listen()?;

    let failed = |failure, about: &OsStr, error: &io::Error| {
        let reason = format!("{}: {error}", about.to_string_lossy());
        send(&writer, &FromGuardian::Failed { failure, reason })
    };
    let mut null = None;
    let mut confinement = None;
    if let Mode::Pipes {
        cwd,
        confinement: given,
    } = &mode
    {
        confinement = given.as_ref();
        // Out of the wrapper's session, and so without its terminal.
        rustix::process::setsid()?;
        null = Some(File::options().read(true).write(true).open("/dev/null")?);
        if let Some(cwd) = cwd
            && let Err(error) = env::set_current_dir(cwd)
        {
            return failed(Failure::Directory, cwd, &error);
        }
    }
    let mut command = Command::new(&program);
    command.args(arguments).process_group(0);
    let spawned = match confinement {
        None => command.spawn(),
        Some(confinement) => match confinement.spawn(command) {
            Ok(spawned) => spawned,
            Err(error) => return failed(Failure::Confinement, &program, &error),
        },
    };
    let child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return failed(Failure::NotFound, &program, &error);
        }
        Err(error) => return failed(Failure::NotExecutable, &program, &error),
    };
    if let Some(null) = null {
        // Or the child's end would not be the end of its pipes. It fails for no descriptor that is open.
        let _ = dup2_stdin(&null)
            .and_then(|()| dup2_stdout(&null))
            .and_then(|()| dup2_stderr(&null));
    }
    let child = child.id().cast_signed();
    // A failure to write means that the wrapper is gone, which the reader tells as well.
    let _ = send(&writer, &FromGuardian::Started { child });
    let child = pid(child).ok_or_else(|| io::Error::other("the child has no number"))?;
    let (group, scratch) = match mode {
        Mode::Terminal { group, scratch } => (pid(group), scratch),
        Mode::Pipes { .. } => (None, None),
    };
    Guardian::new(child, deadlines, group, writer)
        .run(reader, signals)
        .await;
    if let Some(scratch) = scratch {
        // The wrapper may have been faster.
        let _ = std::fs::remove_dir_all(scratch);
    }
    Ok(())
}

/// Removes the way to the socket once both are connected, whoever comes first. An empty or vanished
/// folder is as good.
fn forget_path(socket: &Path) {
    let _ = std::fs::remove_file(socket);
    if let Some(folder) = socket.parent() {
        let _ = std::fs::remove_dir(folder);
    }
}
