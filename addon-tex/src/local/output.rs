//! What latexmk says: its end and its first error, however much it is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinSet;

use crate::text::{log_line, one_line};

const LINES: usize = 50;
/// The rest of a longer line is left out.
const LINE_LENGTH: usize = 1000;

#[derive(Default)]
pub(super) struct Output {
    kept: Arc<Mutex<Kept>>,
    readers: JoinSet<()>,
}

#[derive(Default)]
struct Kept {
    lines: VecDeque<String>,
    first_error: Option<String>,
}

impl Output {
    /// Reads a pipe until its end, in the background.
    pub(super) fn read(&mut self, pipe: Option<impl AsyncRead + Send + Unpin + 'static>) {
        let kept = Arc::clone(&self.kept);
        if let Some(pipe) = pipe {
            self.readers.spawn(read(pipe, kept));
        }
    }

    /// Waits until all is read. The pipes end with latexmk and whoever has them from it. Cancel-safe.
    pub(super) async fn finish(&mut self) {
        while self.readers.join_next().await.is_some() {}
    }

    pub(super) fn tail(&self) -> String {
        let kept = lock(&self.kept);
        kept.lines.iter().map(|it| format!("{it}\n")).collect()
    }

    pub(super) fn last_line(&self) -> String {
        let last = lock(&self.kept).lines.back().map(|it| one_line(it));
        last.unwrap_or_default()
    }

    pub(super) fn first_error(&self) -> Option<String> {
        lock(&self.kept).first_error.clone()
    }
}

async fn read(mut pipe: impl AsyncRead + Unpin, kept: Arc<Mutex<Kept>>) {
    let mut buffer = [0; 8192];
    let mut line = Vec::new();
    loop {
        let count = pipe.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            break;
        }
        for byte in &buffer[..count] {
            if *byte == b'\n' {
                lock(&kept).add(&line);
                line.clear();
            } else if line.len() < LINE_LENGTH {
                line.push(*byte);
            }
        }
    }
    if !line.is_empty() {
        lock(&kept).add(&line);
    }
}

/// It is whole after every step.
fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn add(&mut self, line: &[u8]) {
        let line = log_line(String::from_utf8_lossy(line).trim_end_matches('\r'));
        if self.first_error.is_none() && is_error(&line) {
            self.first_error = Some(one_line(&line));
        }
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// `! …`, or `file:line: …`.
fn is_error(line: &str) -> bool {
    let mut parts = line.splitn(3, ':');
    let is_file = parts
        .next()
        .is_some_and(|it| it.contains('.') && !it.contains(' '));
    let is_line = parts.next().is_some_and(|it| it.parse::<u32>().is_ok());
    line.starts_with("! ")
        || (is_file && is_line && parts.next().is_some_and(|it| it.starts_with(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn flood_is_kept_short() {
        let mut output = Output::default();
        let text = "x".repeat(5000)
            + "\n"
            + &"y\u{1b}\n".repeat(100_000)
            + "./a.tex:3: bad\n./b.tex:4: worse";
        output.read(Some(std::io::Cursor::new(text.into_bytes())));
        output.finish().await;
        let tail = output.tail();
        assert_eq!(tail.lines().count(), LINES);
        assert!(
            tail.ends_with("y\\u{1b}\n./a.tex:3: bad\n./b.tex:4: worse\n"),
            "{tail}"
        );
        assert_eq!(output.first_error().unwrap(), "./a.tex:3: bad");
        assert_eq!(output.last_line(), "./b.tex:4: worse");
    }

    #[test]
    fn errors_are_told_from_other_lines() {
        assert!(is_error("./paper.tex:12: Undefined control sequence."));
        assert!(is_error("! LaTeX Error: File `x.sty' not found."));
        for other in [
            "(./paper.aux)",
            "Latexmk: a.tex: b",
            "12:13: x",
            "l.12 \\bad",
            "",
        ] {
            assert!(!is_error(other), "{other}");
        }
    }
}
