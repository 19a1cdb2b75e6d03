//! From a pod to nothing, in order.

use tokio::time::Instant;

use super::Brain;
use crate::in_full::in_full;

impl Brain {
    /// No new leases; STOPPING; what runs is finished; STOPPED. Whatever takes longer than the drain's time is left to
    /// other pods: it stands in the store.
    pub(super) async fn drain(mut self) {
        let until = Instant::now() + self.drain;
        tracing::info!(limit.seconds = self.drain.as_secs(), "draining");
        self.leases.refuse_new();
        self.stopping.cancel();
        if let Err(error) = self.registry.stopping().await {
            tracing::warn!(error = in_full(&error), "could not say that this pod stops");
        }
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
        if let Err(error) = self.registry.stopped().await {
            tracing::warn!(
                error = in_full(&error),
                "could not say that this pod has stopped; it will be found dead"
            );
        }
        self.site.closed.cancel();
    }
}
