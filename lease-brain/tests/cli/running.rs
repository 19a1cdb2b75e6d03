//! A `lease run` under way.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Child,
    sync::mpsc,
    thread,
    time::Duration,
};

use jiff::Timestamp;
use rustix::{
    process::Signal,
    time::{ClockId, clock_gettime},
};
use serde_json::Value;

use crate::{
    processes::{Mark, signal},
    support::{Output, SOON, World},
};

/// `lease run … -- sh -c SCRIPT`, with the lines that the script prints.
pub(crate) struct Running {
    pub(crate) mark: Mark,
    pub(crate) state_file: PathBuf,
    wrapper: Option<Child>,
    lines: mpsc::Receiver<String>,
}

impl Running {
    /// Returns when the script runs.
    #[track_caller]
    pub(crate) fn start(world: &World, options: &[&str], script: &str) -> Self {
        let script = format!("echo \"$LEASE_STATE_FILE\"; {script}");
        let rest = ["--", "sh", "-c", script.as_str()];
        let mut command = world.command(&[&["run", "pdf"], options, &rest].concat());
        let mark = Mark::new();
        mark.put_on(&mut command);
        let mut wrapper = command.spawn().unwrap();
        let output = BufReader::new(wrapper.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines() {
                let _ = sender.send(line.unwrap());
            }
        });
        let mut running = Self {
            mark,
            state_file: PathBuf::new(),
            wrapper: Some(wrapper),
            lines,
        };
        running.state_file = running.line().into();
        running
    }

    /// The next line of the script.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(SOON).expect("a line of the script")
    }

    pub(crate) fn signal(&self, number: Signal) {
        let wrapper = self.wrapper.as_ref().unwrap();
        signal(wrapper.id().cast_signed(), number);
    }

    pub(crate) fn state(&self) -> State {
        State::read(&self.state_file).unwrap()
    }

    /// Asserts that no process of the script is alive when the time to live may have run out, as the last check that
    /// succeeded, by the state file, says; and returns that moment.
    ///
    /// What is seen counts from the moment of looking, so a crowded machine makes nobody seem to live longer.
    #[track_caller]
    pub(crate) fn assert_gone_in_time(&self) -> Duration {
        let mut expires = None;
        loop {
            if let Some(state) = State::read(&self.state_file) {
                expires = state.expires.or(expires);
            }
            let looked = boot_clock();
            let living = self.mark.living();
            let expires = expires.expect("a state file with an expiry");
            if living.is_empty() {
                return expires;
            }
            let late = looked.saturating_sub(expires);
            assert!(
                late.is_zero(),
                "alive {late:?} after the expiry: {living:?}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// How the wrapper ended, at which nothing of the script may live nor its state file be there.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Output {
        let mut output = Output::of_child(self.wrapper.take().unwrap());
        assert_eq!(self.mark.living(), [], "alive when the slot is given back");
        assert!(!self.state_file.parent().unwrap().exists());
        output.stdout = self.lines.iter().map(|line| line + "\n").collect();
        output
    }

    /// The folder with the state file, which tells the token, goes with the last of the run's processes.
    #[track_caller]
    pub(crate) fn await_state_file_gone(&self) {
        let deadline = std::time::Instant::now() + SOON;
        while self.state_file.parent().unwrap().exists() {
            assert!(std::time::Instant::now() < deadline, "still there");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the wrapper with -9.
    pub(crate) fn kill_wrapper(&mut self) {
        let mut wrapper = self.wrapper.take().unwrap();
        wrapper.kill().unwrap();
        wrapper.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut wrapper) = self.wrapper.take() {
            let _ = wrapper.kill();
            let _ = wrapper.wait();
        }
    }
}

/// What the state file says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) state: String,
    pub(crate) token: String,
    pub(crate) checked: Option<Duration>,
    pub(crate) expires: Option<Duration>,
}

impl State {
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let value: Value = serde_json::from_slice(&fs::read(path).ok()?).expect("whole JSON");
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let time = |field: &str| Some(on_boot_clock(value[field].as_str()?.parse().unwrap()));
        Some(Self {
            state: text("state"),
            token: text("token"),
            checked: time("checkedAt"),
            expires: time("expiresAt"),
        })
    }
}

/// This moment on the clock that counts the time the machine was suspended.
pub(crate) fn boot_clock() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the state file has this machine's time"
)]
fn on_boot_clock(time: Timestamp) -> Duration {
    let ahead = time.duration_since(Timestamp::now());
    match ahead.is_negative() {
        true => boot_clock().saturating_sub(ahead.unsigned_abs()),
        false => boot_clock() + ahead.unsigned_abs(),
    }
}
