//! A server's process that cannot outlive this one.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::time::{Instant, sleep};

/// How long a server may take to end by itself.
const END: Duration = Duration::from_secs(60);

/// Becomes the server once it is told to. Told nothing, because we died, it ends.
const LAUNCHER: &str = r#"read -r go && exec "$@" </dev/null"#;

/// Ends the server, which may be paused, when we are gone: only then does its input close.
///
/// The kernel sends HUP to a process group that loses its last outside parent while a member is stopped,
/// hence the trap.
const WATCHER: &str = r#"trap '' HUP INT QUIT TERM
read -r never || { kill -9 "$1"; sleep 1; rm -rf -- "$2"; }"#;

/// A server as a child of this process, with a second child watching that the first does not stay behind.
///
/// Neither a thread's death nor a signal to the terminal's group touches them; a parent-death signal
/// (`PR_SET_PDEATHSIG`) would fire when the starting thread ends, which in tests it does.
pub(super) struct Process {
    server: Child,
    watcher: Child,
    _lifeline: ChildStdin,
}

impl Process {
    /// Starts `command` with its output going to `log`; `directory` is removed if we die without doing it.
    pub(super) fn spawn(
        command: &[std::ffi::OsString],
        log: File,
        directory: &Path,
    ) -> Result<Self> {
        let errors = log.try_clone().context("share the log")?;
        let mut server = shell(LAUNCHER)
            .args(command)
            .stdout(log)
            .stderr(errors)
            .spawn()
            .context("start sh for mongod")?;
        // The server waits for its word until the watcher is there, so there is no moment in which our
        // death would leave it behind.
        let mut watcher = match watch(&server, directory) {
            Ok(watcher) => watcher,
            Err(error) => {
                end(&mut server);
                return Err(error);
            }
        };
        let lifeline = watcher.stdin.take();
        let told = server.stdin.take().map(|mut ear| ear.write_all(b"go\n"));
        match (lifeline, told) {
            (Some(lifeline), Some(Ok(()))) => Ok(Self {
                server,
                watcher,
                _lifeline: lifeline,
            }),
            _ => {
                end(&mut server);
                end(&mut watcher);
                anyhow::bail!("the shell that starts mongod ended early")
            }
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.server.id()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        rustix::process::kill_process(Pid::from_child(&self.server), signal)
            .with_context(|| format!("send {signal:?} to mongod"))
    }

    /// Stops the server and waits until it stands still: its threads run on for a moment after the signal.
    pub(super) fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        // The report is left in place, so that a second pause finds it too.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.server)), stopped)
            .context("wait for mongod's pause")?;
        Ok(())
    }

    /// How the server ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.server.try_wait().context("look after mongod")
    }

    /// Waits for its end, which is also its reaping.
    pub(super) async fn wait_for_end(&mut self) -> Result<()> {
        let deadline = Instant::now() + END;
        while self.ended()?.is_none() {
            ensure!(
                Instant::now() < deadline,
                "mongod does not end within {END:?}"
            );
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killed, but not reaped while the watcher lives: a reaped server's id may belong to somebody else.
        if let Err(error) = self.server.kill() {
            eprintln!("test-mongo: kill mongod {}: {error}", self.server.id());
        }
        end(&mut self.watcher);
        end(&mut self.server);
    }
}

fn watch(server: &Child, directory: &Path) -> Result<Child> {
    shell(WATCHER)
        .arg(server.id().to_string())
        .arg(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start sh to watch mongod")
}

/// In a process group of its own, so that Ctrl-C on the terminal reaches us alone.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]);
    command.stdin(Stdio::piped()).process_group(0);
    command
}

fn end(child: &mut Child) {
    if let Err(error) = child.kill().and_then(|()| child.wait()) {
        eprintln!("test-mongo: end process {}: {error}", child.id());
    }
}
