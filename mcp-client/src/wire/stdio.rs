//! A child behind pipes, which is the session.

use std::ffi::OsString;
use std::time::Duration;

use lease_toolpack::{SessionEnd, SessionPayload};
use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use supervise::{Ended, Piped, PipedCommand, SpawnError};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Handler, MESSAGE_LIMIT, Running, STOP_LIMIT};
use crate::error::BoxError;
use crate::fault::Fault;
use crate::secrets::Secrets;
use crate::server::StdioServer;
use crate::text::shown;

/// What a child has of the variables here; none of the others, for they may be secrets.
const INHERITED: [&str; 9] = [
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TMP", "TEMP",
];

/// How long a child may take to end by itself once its input has ended.
const POLITE_LIMIT: Duration = Duration::from_secs(2);

/// The time between TERM and KILL for one that does not.
const GRACE: Duration = Duration::from_secs(2);

/// How long its being killed may take, or its being started.
const SYSTEM_LIMIT: Duration = Duration::from_secs(2);

/// The most of one line of its stderr that is logged.
const LINE_LIMIT: usize = 2000;

/// Why no child runs.
#[derive(Debug, thiserror::Error)]
enum StdioError {
    #[error("no variables for {program}")]
    Env {
        program: String,
        #[source]
        source: BoxError,
    },
    #[error("cannot start {program}")]
    Spawn {
        program: String,
        #[source]
        source: SpawnError,
    },
}

/// One session's child.
#[derive(Debug)]
pub(crate) struct StdioWire {
    name: String,
    server: StdioServer,
    child: Mutex<Child>,
}

/// What there is of a child.
#[derive(Debug)]
enum Child {
    /// None, or none any more.
    None,
    /// A task of its own starts it, so that a caller that is dropped meanwhile does not make it unknown whether one runs.
    Starting(JoinHandle<Option<Piped>>),
    Started(Piped),
}

impl Child {
    /// The child, when it has started, if it has. Cancel-safe.
    async fn started(&mut self) -> Option<&mut Piped> {
        if let Self::Starting(task) = self {
            // One that was cut off has let go of the child.
            *self = task.await.ok().flatten().map_or(Self::None, Self::Started);
        }
        match self {
            Self::Started(child) => Some(child),
            _ => None,
        }
    }
}

impl StdioWire {
    pub(crate) fn new(name: &str, server: &StdioServer) -> Self {
        Self {
            name: name.to_owned(),
            server: server.clone(),
            child: Mutex::new(Child::None),
        }
    }

    pub(crate) async fn open(&self, handler: Handler) -> Result<Running, Fault> {
        let (command, secrets) = self.command().await.map_err(broken)?;
        let (pipes, started) = oneshot::channel();
        let name = self.name.clone();
        let mut child = self.child.lock().await;
        *child = Child::Starting(tokio::spawn(async move {
            match Piped::spawn(&command).await {
                Ok(mut child) => {
                    if let Some(stderr) = child.stderr.take() {
                        // Ends with the child and whoever shares its stderr, and these are ended with it.
                        tokio::spawn(log_lines(name, stderr, secrets));
                    }
                    let _ = pipes.send(Ok((child.stdout.take(), child.stdin.take())));
                    Some(child)
                }
                Err(error) => {
                    let _ = pipes.send(Err(error));
                    None
                }
            }
        }));
        drop(child);
        let (stdout, stdin) = match started.await {
            Ok(Ok((Some(stdout), Some(stdin)))) => (stdout, stdin),
            Ok(Err(source)) => {
                let program = self.server.program.clone();
                return Err(broken(StdioError::Spawn { program, source }));
            }
            _ => return Err(Fault::Broken("its start was cut off".into())),
        };
        let transport =
            AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MESSAGE_LIMIT);
        Ok(handler.serve(transport).await?)
    }

    /// Returns when the child has ended though nobody here ended it. Its guardian may have been killed, and what the child
    /// had started may hold the pipe open.
    pub(crate) async fn ended(&self) {
        if let Some(child) = self.child.lock().await.started().await {
            child.wait().await;
        }
    }

    pub(crate) fn payload(&self) -> SessionPayload {
        SessionPayload::from_iter([
            ("transport".to_owned(), "stdio".into()),
            ("endpoint".to_owned(), self.server.program.as_str().into()),
        ])
    }

    /// Ends the child and all that it started: by the end of its input, by TERM, by KILL. `stopping` closes the pipe.
    pub(crate) async fn end(&self, stopping: impl Future<Output = ()>) -> SessionEnd {
        let _ = timeout(STOP_LIMIT, stopping).await;
        let mut child = std::mem::replace(&mut *self.child.lock().await, Child::None);
        let child = match timeout(SYSTEM_LIMIT, child.started()).await {
            Ok(Some(child)) => child,
            Ok(None) => return SessionEnd::Gone,
            Err(_) => return SessionEnd::Unknown("its start took too long".to_owned()),
        };
        let ended = match timeout(POLITE_LIMIT, child.wait()).await {
            Ok(ended) => ended,
            Err(_) => match timeout(GRACE + SYSTEM_LIMIT, child.end()).await {
                Ok(ended) => ended,
                Err(_) => {
                    return SessionEnd::Unknown("the child was killed, and is not gone".to_owned());
                }
            },
        };
        tracing::debug!(mcp.server = self.name, "the child has ended: {ended:?}");
        match ended {
            Ended::GuardianDied => {
                SessionEnd::Unknown("something else killed the child's guardian".to_owned())
            }
            _ => SessionEnd::Gone,
        }
    }

    /// What to start, and what of it must not be shown.
    async fn command(&self) -> Result<(PipedCommand, Secrets), StdioError> {
        let server = &self.server;
        let own = (server.env)().await.map_err(|source| StdioError::Env {
            program: server.program.clone(),
            source,
        })?;
        let secrets = Secrets::of_variables(own.values());
        let inherited = INHERITED
            .into_iter()
            .filter(|name| !own.contains_key(*name));
        let inherited = inherited.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
        let own = own
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let command = PipedCommand {
            program: (&server.program).into(),
            args: server.args.iter().map(OsString::from).collect(),
            envs: inherited.chain(own).collect(),
            cwd: server.cwd.clone(),
            grace: GRACE,
            lifetime: None,
            guardian: server.guardian.clone(),
        };
        Ok((command, secrets))
    }
}

fn broken(error: StdioError) -> Fault {
    Fault::Broken(Box::new(error))
}

/// Logs what a child says on its stderr, the beginning of each line: one without end takes no memory.
async fn log_lines(server: String, stderr: impl AsyncRead + Unpin, secrets: Secrets) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    let log = |line: &[u8]| {
        let text = shown(&secrets.hide(&String::from_utf8_lossy(line)), LINE_LIMIT);
        tracing::info!(mcp.server = server, "stderr: {text}");
    };
    loop {
        let read = match stderr.fill_buf().await {
            Ok(read) if !read.is_empty() => read,
            _ => break,
        };
        let end = read.iter().position(|byte| *byte == b'\n');
        let part = &read[..end.unwrap_or(read.len())];
        // One more than is shown, so that it shows that there was more.
        let room = (LINE_LIMIT + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let taken = part.len() + usize::from(end.is_some());
        stderr.consume(taken);
        if end.is_some() {
            log(&line);
            line.clear();
        }
    }
    if !line.is_empty() {
        log(&line);
    }
}
