//! The guardian's side: start the child and watch over it.

mod watch;

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::{net::UnixStream, process::CommandExt},
    path::Path,
    process::{Command, ExitCode},
};

use tokio::io::{AsyncBufReadExt, BufReader};

use self::watch::{Guardian, Signals};
use super::protocol::{FromGuardian, GUARDIAN_ARGUMENT, ToGuardian, parse, pid, send};

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
    let Some(ToGuardian::Start {
        deadlines,
        group,
        scratch,
    }) = start
    else {
        return Ok(()); // The wrapper is gone and nothing runs.
    };
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // From here on signals to the guardian end the child; before, they end only the guardian.
    let signals = Signals::listen()?;

    let mut command = Command::new(&program);
    let child = match command.args(arguments).process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => {
            let found = error.kind() != io::ErrorKind::NotFound;
            let reason = format!("{}: {error}", program.to_string_lossy());
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
