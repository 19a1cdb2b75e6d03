//! The signals that end a wait, and that are passed on to a command.

use std::io;

use rustix::process::Signal;
use supervise::is_ignored;
use tokio::signal::unix::{self, SignalKind};

/// Listens from before the wait until after the command: one that comes between the two is not lost.
///
/// What this process was started to ignore (by `nohup`, or by a shell without job control for what it puts in the
/// background) is left alone, and the command inherits that.
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let passed = [
            (SignalKind::interrupt(), Signal::INT),
            (SignalKind::terminate(), Signal::TERM),
            (SignalKind::hangup(), Signal::HUP),
            (SignalKind::quit(), Signal::QUIT),
            (SignalKind::user_defined1(), Signal::USR1),
            (SignalKind::user_defined2(), Signal::USR2),
        ];
        let listeners = passed.into_iter().filter(|(kind, _)| !is_ignored(*kind));
        let listeners: io::Result<Vec<_>> = listeners
            .map(|(kind, signal)| Ok((signal, unix::signal(kind)?)))
            .collect();
        listeners.map(Self)
    }

    /// Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (signal, listener) in &mut self.0 {
                if listener.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
