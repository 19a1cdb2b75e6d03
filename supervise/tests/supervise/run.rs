//! A probe with its child, and an observer of its processes that knows nothing of the guardian.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const PROBE: &str = env!("CARGO_BIN_EXE_supervise-probe");
/// For what takes no time but the scheduler's, on a loaded machine.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// How much later than its deadline a kill may be seen: some 20 ms on an idle machine, far more where
/// all these tests share two cores with a build.
pub(crate) const LATE: Duration = Duration::from_secs(2);
/// Deadlines that no test lives to see.
pub(crate) const FAR: u64 = 600_000;

pub(crate) const MARK: &str = "SUPERVISE_TEST_MARK";

/// Four sleepers below a shell, one of them in the group, three in sessions of their own, one of these
/// without parent.
pub(crate) const DESCENDANTS: &str = "sleep 300 & setsid sleep 301 & \
    (setsid sh -c 'sleep 302 & exec sleep 303' &) ; wait";

#[track_caller]
pub(crate) fn until<T>(
    limit: Duration,
    what: impl Fn() -> String,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {limit:?}: {}", what());
        thread::sleep(Duration::from_millis(5));
    }
}

/// A name for everything one test starts, found again in the processes' environment.
pub(crate) struct Mark(pub(crate) String);

impl Mark {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}-{number}", std::process::id()))
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env(MARK, &self.0);
        command
    }

    /// The names and numbers of all living processes with this mark, the probe's own left out.
    pub(crate) fn living(&self) -> Vec<(String, i32)> {
        let mark = format!("{MARK}={}", self.0);
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|it| it == mark.as_bytes()).then_some(pid)
        });
        let named = pids.filter_map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            Some((name.trim().to_owned(), pid))
        });
        // The kernel cuts the probe's name to 15 bytes.
        named
            .filter(|(name, _)| !PROBE.rsplit('/').next().unwrap().starts_with(name))
            .collect()
    }

    #[track_caller]
    pub(crate) fn await_sleepers(&self, count: usize) {
        let are_there = || {
            let living = self.living();
            let sleepers = living.iter().filter(|(name, _)| name == "sleep");
            (sleepers.count() == count).then_some(())
        };
        until(SOON, || "the sleepers".into(), are_there);
    }

    #[track_caller]
    pub(crate) fn await_none(&self, limit: Duration) {
        until(
            limit,
            || "nothing lives".into(),
            || self.living().is_empty().then_some(()),
        );
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        for (_, pid) in self.living() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

pub(crate) struct Run {
    pub(crate) mark: Mark,
    pub(crate) wrapper: Child,
    /// 0 when the command could not be executed.
    pub(crate) child: i32,
    pub(crate) started: Instant,
    stderr: BufReader<std::process::ChildStderr>,
}

pub(crate) struct Report {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// `mode` is the probe's `keep` or `let`.
    pub(crate) fn start(term: u64, kill: u64, mode: &str, command: &[&str]) -> Self {
        let mark = Mark::new();
        let mut probe = mark.command(PROBE);
        probe.args([&term.to_string(), &kill.to_string(), mode]);
        probe.args(command);
        Self::of(mark, probe)
    }

    pub(crate) fn script(term: u64, kill: u64, mode: &str, script: &str) -> Self {
        Self::start(term, kill, mode, &["sh", "-c", script])
    }

    /// A probe that holds a script behind pipes, with a grace in milliseconds.
    pub(crate) fn piped(grace: u64, script: &str) -> Self {
        let mark = Mark::new();
        let mut probe = mark.command(PROBE);
        probe.args(["pipe", &grace.to_string(), "sh", "-c", script]);
        Self::of(mark, probe)
    }

    pub(crate) fn of(mark: Mark, mut probe: Command) -> Self {
        // No terminal: a test must not take the developer's.
        probe.stdin(Stdio::null());
        probe.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut wrapper = probe.spawn().unwrap();
        let mut stderr = BufReader::new(wrapper.stderr.take().unwrap());
        let mut first = String::new();
        stderr.read_line(&mut first).unwrap();
        let child = first.trim().strip_prefix("probe: child ");
        Self {
            mark,
            wrapper,
            child: child.map_or(0, |it| it.parse().unwrap()),
            started: Instant::now(),
            stderr,
        }
    }

    pub(crate) fn guardian(&self) -> i32 {
        parent(self.child)
    }

    pub(crate) fn wrapper_pid(&self) -> i32 {
        self.wrapper.id().cast_signed()
    }

    /// Waits for the wrapper's end, at which nothing of the run may live.
    #[track_caller]
    pub(crate) fn report(mut self, limit: Duration) -> Report {
        let ended = || self.wrapper.try_wait().unwrap();
        let code = until(limit, || "the wrapper's end".into(), ended).code();
        assert_eq!(self.mark.living(), [], "alive when the slot is given back");
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let mut pipe = self.wrapper.stdout.take().unwrap();
        pipe.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        Report {
            code,
            stdout,
            stderr,
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.wrapper.kill();
        let _ = self.wrapper.wait();
    }
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// The number of the process's parent.
pub(crate) fn parent(pid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("PPid:"));
    line.unwrap().trim().parse().unwrap()
}
