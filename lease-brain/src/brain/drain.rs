//! From a pod to nothing, in order.

use std::time::Duration;

use tokio::time::Instant;

use super::Brain;
use crate::cluster::PodError;
use crate::in_full::in_full;

/// How long a drain that has no time left may take to say that it is over.
const LAST_WORD: Duration = Duration::from_secs(2);

impl Brain {
    /// No new leases; STOPPING; what runs is finished; STOPPED. Whatever takes longer than the drain's time is left to
    /// other pods: it stands in the store.
    pub(super) async fn drain(mut self) {
        let until = Instant::now() + self.drain;
        tracing::info!(limit.seconds = self.drain.as_secs(), "draining");
        self.leases.refuse_new();
        self.stopping.cancel();
        said(until, "stops", self.registry.stopping()).await;
        let finished = async {
            let _ = (&mut self.working.cleaning).await;
            let _ = (&mut self.working.sweeping).await;
            self.runner.idle().await;
            self.leases.close().await;
        };
        if tokio::time::timeout_at(until, finished).await.is_err() {
            tracing::warn!("not all was finished in time; other pods go on with it");
            self.working.cleaning.abort();
        }
        // Not said, it is found dead.
        let until = until.max(Instant::now() + LAST_WORD);
        said(until, "has stopped", self.registry.stopped()).await;
        self.site.closed.cancel();
    }
}

/// Writes where this pod stands, unless the store takes longer than there is time.
async fn said(until: Instant, what: &str, saying: impl Future<Output = Result<(), PodError>>) {
    let problem = match tokio::time::timeout_at(until, saying).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => in_full(&error),
        Err(_) => "the store did not answer in time".to_owned(),
    };
    tracing::warn!(problem, "could not say that this pod {what}");
}
