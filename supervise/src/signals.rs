//! Listening to signals without undoing `nohup`.

use std::{future, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Whether this process was started with the signal ignored, as `nohup` does and a shell without job
/// control for what it puts in the background. Then no handler must be installed: the child would no
/// longer inherit that.
pub fn is_ignored(kind: SignalKind) -> bool {
    // Where there is no /proc, the common case is assumed.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

/// Hears one signal, or never anything.
#[derive(Debug)]
pub(super) struct Listener(Option<Signal>);

impl Listener {
    pub(super) fn always(kind: SignalKind) -> io::Result<Self> {
        signal(kind).map(|it| Self(Some(it)))
    }

    pub(super) fn unless_ignored(kind: SignalKind) -> io::Result<Self> {
        if is_ignored(kind) {
            return Ok(Self(None));
        }
        Self::always(kind)
    }

    /// Cancel-safe.
    pub(super) async fn heard(&mut self) {
        if let Some(signal) = &mut self.0
            && signal.recv().await.is_some()
        {
            return;
        }
        future::pending().await
    }
}
