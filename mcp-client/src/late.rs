//! What goes on after a connection was closed: listening for answers that would name a session after all.

use std::sync::LazyLock;

use tokio_util::task::TaskTracker;

static LISTENERS: LazyLock<TaskTracker> = LazyLock::new(|| {
    let listeners = TaskTracker::new();
    // It takes more all the same; but only so does waiting for it end.
    listeners.close();
    listeners
});

/// Waits until nothing is left behind by the sessions of this process that have been closed.
///
/// A server that has not answered `initialize` when a session is given up may still open one. It is listened for that
/// answer, for 60 s at most, and the session that it names is ended. That outlives [`crate::McpConnection::close`]; a
/// process that is to leave no session waits for this too before it ends, as long as it can.
pub async fn settled() {
    LISTENERS.wait().await;
}

/// Runs `listening` in a task that [`settled`] waits for.
pub(crate) fn spawn(listening: impl Future<Output = ()> + Send + 'static) {
    LISTENERS.spawn(listening);
}
