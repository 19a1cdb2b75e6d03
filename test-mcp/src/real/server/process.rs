//! A process that cannot outlive this one, nor can what it has started.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use crate::real::processes_mentioning;

/// How long a server may take to end by itself after TERM, and its browser after KILL.
const END: Duration = Duration::from_secs(5);

/// Becomes the server once it is told to. Told nothing, because we died, it ends.
const LAUNCHER: &str = r#"read -r go && exec "$@" </dev/null"#;

/// Does what `Drop` does when we are gone: only then does its input close. It is told the folder instead of
/// being started with it, so that it is not itself among the processes that mention the folder.
const WATCHER: &str = r#"trap '' HUP INT QUIT TERM
read -r folder || exit
read -r never || {
    kill -s TERM -- "-$1"
    tries=0
    while kill -s 0 -- "-$1" && [ $((tries += 1)) -le 50 ]; do sleep 0.1; done
    kill -s KILL -- "-$1"
    for process in /proc/[0-9]*; do
        grep -qsF -- "$folder" "$process/cmdline" && kill -s KILL "${process#/proc/}"
    done
    sleep 1
    rm -rf -- "$folder"
}"#;

/// A server as a child of this process, in a process group of its own, with a second child watching that nothing
/// stays behind.
pub(super) struct Process {
    server: Child,
    watcher: Child,
    _lifeline: ChildStdin,
    directory: PathBuf,
}

impl Process {
    /// Starts `command` with its output going to `log`. What it starts is known by naming `directory`, which is
    /// removed if we die without doing it.
    pub(super) fn spawn(command: &Command, log: File, directory: &Path) -> Result<Self> {
        let errors = log.try_clone().context("share the log")?;
        let mut server = launcher(command)
            .stdout(log)
            .stderr(errors)
            .spawn()
            .context("start sh for a server")?;
        // The server waits for its word until the watcher is there, so there is no moment in which our
        // death would leave it behind.
        match watch(&server, directory) {
            Ok((watcher, lifeline)) => {
                let ear = server.stdin.take();
                let process = Self {
                    server,
                    watcher,
                    _lifeline: lifeline,
                    directory: directory.to_owned(),
                };
                let mut ear = ear.context("no input of sh")?;
                ear.write_all(b"go\n").context("start the server")?;
                Ok(process)
            }
            Err(error) => {
                end(&mut server);
                Err(error)
            }
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.server.id()
    }

    /// How the server ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.server.try_wait().context("look after the server")
    }

    /// Lets the server end itself and its browser, and ends what of its group is still there.
    ///
    /// The server is not reaped before that: a reaped server's id may belong to somebody else.
    fn end_group(&self) -> Result<()> {
        let group = Pid::from_child(&self.server);
        kill_process_group(group, Signal::TERM).context("send TERM")?;
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        within(END, || {
            let end = waitid(WaitId::Pid(group), look).context("wait for the end")?;
            Ok(end.is_some())
        })?;
        kill_process_group(group, Signal::KILL).context("send KILL")
    }

    /// Ends what has left the group.
    fn end_browser(&self) -> Result<()> {
        within(END, || {
            let left = processes_mentioning(&self.directory)?;
            for pid in &left {
                if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
                    // It may have ended by itself.
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            Ok(left.is_empty())
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let group = match self.server.try_wait() {
            Ok(None) => self.end_group(),
            _ => Ok(()),
        };
        for outcome in [group, self.end_browser()] {
            if let Err(error) = outcome {
                eprintln!("test-mcp: end server {}: {error:#}", self.server.id());
            }
        }
        end(&mut self.watcher);
        end(&mut self.server);
    }
}

/// Asks again and again until the answer is yes or the time is over.
fn within(time: Duration, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + time;
    while !probe()? && Instant::now() < deadline {
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn watch(server: &Child, directory: &Path) -> Result<(Child, ChildStdin)> {
    let mut watcher = shell(WATCHER)
        .arg(server.id().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start sh to watch a server")?;
    let mut lifeline = watcher.stdin.take().context("no input of sh")?;
    let told = lifeline
        .write_all(directory.as_os_str().as_bytes())
        .and_then(|()| lifeline.write_all(b"\n"));
    if let Err(error) = told {
        end(&mut watcher);
        return Err(error).context("tell the watcher its folder");
    }
    Ok((watcher, lifeline))
}

/// A shell that becomes `command`, with its folder and variables.
fn launcher(command: &Command) -> Command {
    let mut launcher = shell(LAUNCHER);
    launcher.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        launcher.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => launcher.env(name, value),
            None => launcher.env_remove(name),
        };
    }
    launcher
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
        eprintln!("test-mcp: end process {}: {error}", child.id());
    }
}
