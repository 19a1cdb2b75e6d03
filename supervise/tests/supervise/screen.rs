//! A terminal to type at: `script` of util-linux.

use std::{
    fs,
    io::{Read, Write},
    process::{Child, ChildStdin, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use crate::run::{Mark, SOON, until};

/// A terminal with a command in it.
pub(crate) struct Screen {
    pub(crate) mark: Mark,
    pub(crate) script: Child,
    keys: ChildStdin,
    text: Arc<Mutex<String>>,
}

impl Screen {
    pub(crate) fn open(command: &str) -> Self {
        let mark = Mark::new();
        let mut script = mark.command("script");
        script.args(["-qec", command, "/dev/null"]);
        script.env("SHELL", "/bin/sh").env("TERM", "dumb");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = script.spawn().unwrap();
        let keys = script.stdin.take().unwrap();
        let mut output = script.stdout.take().unwrap();
        let text = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&text);
        thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let piece = String::from_utf8_lossy(&bytes[..count]);
                shown.lock().unwrap().push_str(&piece);
            }
        });
        Self {
            mark,
            script,
            keys,
            text,
        }
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    #[track_caller]
    pub(crate) fn await_text(&self, part: &str) {
        let what = || format!("{part:?} in {:?}", self.text());
        until(SOON, what, || self.text().contains(part).then_some(()));
    }

    /// The number of the child, once the probe has told it.
    #[track_caller]
    pub(crate) fn child(&self) -> i32 {
        until(
            SOON,
            || "the child's number".into(),
            || {
                let text = self.text();
                let (number, _) = text.split_once("probe: child ")?.1.split_once('\r')?;
                number.parse().ok()
            },
        )
    }

    /// All that was shown until the command ended.
    #[track_caller]
    pub(crate) fn text_at_end(&mut self) -> String {
        self.await_text("probe: ended");
        self.text()
    }

    #[track_caller]
    pub(crate) fn code(mut self) -> Option<i32> {
        until(
            SOON,
            || "the end".into(),
            || self.script.try_wait().unwrap(),
        )
        .code()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// State, group and the terminal's foreground group of a process.
pub(crate) fn state(pid: i32) -> (String, i32, i32) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let number = |index: usize| fields[index].parse().unwrap();
    (fields[0].to_owned(), number(2), number(5))
}

#[track_caller]
pub(crate) fn await_foreground(child: i32) {
    let runs_there = || {
        let (state, _, foreground) = state(child);
        (state != "T" && foreground == child).then_some(())
    };
    until(SOON, || "the child in the foreground".into(), runs_there);
}
