//! From a program and a folder to a server that listens.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::{Instant, sleep};

use super::directory::Directory;
use super::process::Process;
use crate::replication::SET_NAME;

/// Below the ports that systems give to outgoing connections, so that none of these takes the port of a
/// server that is down for a moment.
const PORTS: std::ops::Range<u16> = 20_000..27_000;

const ATTEMPTS: usize = 8;
const START: Duration = Duration::from_secs(60);

/// `mongod`'s log id of "Waiting for connections".
const LISTENING: &str = "\"id\":23016,";
const PORT_TAKEN: &str = "Address already in use";

/// The arguments of every server of ours: small, on loopback only, able to fail on demand.
pub fn server_arguments(data: &Path, port: u16) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    arguments.extend(
        [
            "--replSet",
            SET_NAME,
            "--bind_ip",
            "127.0.0.1",
            "--nounixsocket",
        ]
        .map(Into::into),
    );
    arguments.extend(["--wiredTigerCacheSizeGB", "0.5"].map(Into::into));
    for parameter in [
        "enableTestCommands=1",
        "diagnosticDataCollectionEnabled=false",
        // A primary would wait 15 s for a successor before it ends.
        "shutdownTimeoutMillisForSignaledShutdown=100",
    ] {
        arguments.extend(["--setParameter", parameter].map(Into::into));
    }
    arguments.extend(["--port".into(), port.to_string().into()]);
    arguments.extend(["--dbpath".into(), data.into()]);
    arguments
}

/// A port that was free a moment ago. Another process may take it first, so whoever uses it must try again.
pub fn free_port() -> Result<u16> {
    for _ in 0..200 {
        let port = fastrand::u16(PORTS);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between {} and {}", PORTS.start, PORTS.end)
}

/// The last lines of a server's log, for an error message.
pub fn log_tail(log: &Path) -> String {
    let text = match fs::read(log) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return format!("no log in {}: {error}", log.display()),
    };
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(15)..].join("\n");
    format!("the end of {}:\n{tail}", log.display())
}

pub(super) async fn on_free_port(program: &Path, directory: &Directory) -> Result<(Process, u16)> {
    for _ in 0..ATTEMPTS {
        let port = free_port()?;
        if let Some(process) = launch(program, directory, port).await? {
            return Ok((process, port));
        }
    }
    bail!("{ATTEMPTS} ports in turn were taken by others before mongod could listen")
}

pub(super) async fn on_port(program: &Path, directory: &Directory, port: u16) -> Result<Process> {
    let process = launch(program, directory, port).await?;
    process.with_context(|| format!("port {port} has been taken by another program"))
}

/// A server that listens on this port; none if the port is taken.
///
/// Its own log tells, not an answer on the port, which might be another server's.
async fn launch(program: &Path, directory: &Directory, port: u16) -> Result<Option<Process>> {
    let path = directory.log();
    let log = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("open {}", path.display()))?;
    let earlier = log.metadata().context("look at the log")?.len();
    let mut command = vec![program.into()];
    command.extend(server_arguments(&directory.data(), port));
    let mut process = Process::spawn(&command, log, directory.path())?;
    let deadline = Instant::now() + START;
    loop {
        // Its end is looked at before its log, so that the log is complete once it has ended.
        let ended = process.ended()?;
        let text = read_from(&path, earlier)?;
        match ended {
            None if text.contains(LISTENING) => return Ok(Some(process)),
            None if Instant::now() < deadline => sleep(Duration::from_millis(20)).await,
            None => bail!(
                "mongod does not listen after {START:?}; {}",
                log_tail(&path)
            ),
            Some(_) if text.contains(PORT_TAKEN) => return Ok(None),
            Some(status) => bail!("mongod ended at once ({status}); {}", log_tail(&path)),
        }
    }
}

fn read_from(path: &Path, offset: u64) -> Result<String> {
    let mut file = File::open(path).context("open the log")?;
    file.seek(SeekFrom::Start(offset))
        .context("seek in the log")?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).context("read the log")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
