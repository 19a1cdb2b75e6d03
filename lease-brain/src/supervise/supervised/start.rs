//! Starting a guardian and getting in touch with it.

use std::{env, io, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use tokio::{
    net::{UnixListener, UnixStream},
    process::{Child, Command},
    select,
    time::sleep,
};

use super::ChildCommand;
use crate::supervise::protocol::GUARDIAN_ARGUMENT;

/// A guardian that has not connected by then never will; starting a program takes milliseconds.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn start_guardian(command: &ChildCommand) -> io::Result<(Child, UnixStream)> {
    // The folder is for this user only, and gone as soon as both are connected: the guardian removes it
    // as well, in case this process is killed in between.
    let folder = tempfile::Builder::new()
        .prefix("lease-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir()?;
    let socket = folder.path().join("guardian");
    let listener = UnixListener::bind(&socket)?;
    let mut guardian = guardian_command(command, &socket)?.spawn()?;
    let stream = select! {
        connected = listener.accept() => connected?.0,
        status = guardian.wait() => {
            return Err(io::Error::other(format!("it ended with {}", status?)));
        }
        () = sleep(CONNECT_LIMIT) => {
            guardian.start_kill()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
    };
    Ok((guardian, stream))
}

fn guardian_command(command: &ChildCommand, socket: &Path) -> io::Result<Command> {
    let mut guardian = Command::new(env::current_exe()?);
    guardian
        .arg(GUARDIAN_ARGUMENT)
        .arg(socket)
        .arg(&command.program)
        .args(&command.args)
        .envs(command.envs.iter().map(|(name, value)| (name, value)))
        // Signals to the wrapper's group, such as Ctrl-C or `kill -9 -…`, shall miss the guardian.
        .process_group(0);
    for withheld in &command.withheld {
        guardian.env_remove(withheld);
    }
    Ok(guardian)
}
