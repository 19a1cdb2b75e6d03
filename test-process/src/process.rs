//! A process that cannot outlive this one, nor can what it has started.

use std::fs::{self, File};
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

use crate::processes::processes_mentioning;

/// How long a program may take to end by itself after TERM, and what it has started after KILL.
const END: Duration = Duration::from_secs(5);

/// Becomes the program once it is told to. Told nothing, because we died, it ends.
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

/// A program as a child of this process, in a process group of its own, with a second child watching that nothing
/// stays behind when this process is killed.
///
/// `Drop` blocks until it is gone, with all that it has started.
#[derive(Debug)]
pub struct Process {
    program: Child,
    watcher: Child,
    _lifeline: ChildStdin,
    directory: PathBuf,
}

impl Process {
    /// Starts `command` with its output going to `log`. What it starts is known by naming `directory`, which is
    /// removed if we die without doing it.
    pub fn spawn(command: &Command, log: File, directory: &Path) -> Result<Self> {
        let errors = log.try_clone().context("share the log")?;
        let mut program = launcher(command)
            .stdout(log)
            .stderr(errors)
            .spawn()
            .context("start sh for a program")?;
        // The program waits for its word until the watcher is there, so there is no moment in which our
        // death would leave it behind.
        match watch(&program, directory) {
            Ok((watcher, lifeline)) => {
                let ear = program.stdin.take();
                let process = Self {
                    program,
                    watcher,
                    _lifeline: lifeline,
                    directory: directory.to_owned(),
                };
                let mut ear = ear.context("no input of sh")?;
                ear.write_all(b"go\n").context("start the program")?;
                Ok(process)
            }
            Err(error) => {
                end(&mut program);
                Err(error)
            }
        }
    }

    /// Its process id, which is also that of its group.
    pub fn id(&self) -> u32 {
        self.program.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.program.try_wait().context("look after the program")
    }

    /// Lets the program end itself and what it has started, and ends what of its group is still there.
    ///
    /// It is not reaped before that: a reaped program's id may belong to somebody else.
    fn end_group(&self) -> Result<()> {
        let group = Pid::from_child(&self.program);
        kill_process_group(group, Signal::TERM).context("send TERM")?;
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        within(END, || {
            let end = waitid(WaitId::Pid(group), look).context("wait for the end")?;
            Ok(end.is_some())
        })?;
        kill_process_group(group, Signal::KILL).context("send KILL")
    }

    /// Ends what has left the group, as a browser does.
    fn end_strays(&self) -> Result<()> {
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
        let group = match self.program.try_wait() {
            Ok(None) => self.end_group(),
            _ => Ok(()),
        };
        for outcome in [group, self.end_strays()] {
            if let Err(error) = outcome {
                eprintln!("test-process: end program {}: {error:#}", self.program.id());
            }
        }
        end(&mut self.watcher);
        end(&mut self.program);
    }
}

/// Variables that make a program and what it starts write below `directory` only.
pub fn surroundings(directory: &Path) -> Result<[(&'static str, PathBuf); 4]> {
    let temporary = directory.join("tmp");
    fs::create_dir_all(&temporary).context("create a folder for temporary files")?;
    Ok([
        ("HOME", directory.to_owned()),
        ("TMPDIR", temporary),
        ("XDG_CACHE_HOME", directory.join(".cache")),
        ("XDG_CONFIG_HOME", directory.join(".config")),
    ])
}

/// Asks again and again until the answer is yes or the time is over.
fn within(time: Duration, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + time;
    while !probe()? && Instant::now() < deadline {
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn watch(program: &Child, directory: &Path) -> Result<(Child, ChildStdin)> {
    let mut watcher = shell(WATCHER)
        .arg(program.id().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start sh to watch a program")?;
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
        eprintln!("test-process: end process {}: {error}", child.id());
    }
}
