//! How the system tells a brain to stop.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::Shutdown;

impl Shutdown {
    /// INT or TERM drains, a second one aborts. From now on neither ends this process by itself. To be called once, within
    /// a tokio runtime.
    ///
    /// # Errors
    /// The system lets nobody listen to signals.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::default();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let stops = [shutdown.drain.clone(), shutdown.abort.clone()];
        tokio::spawn(async move {
            for stop in stops {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                stop.cancel();
            }
        });
        Ok(shutdown)
    }
}
