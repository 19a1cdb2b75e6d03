//! From a pod to nothing, in order.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::Brain;
use crate::in_full::in_full;

/// What of the drain's time is kept for saying that the pod has stopped.
const LAST_WORD: Duration = Duration::from_secs(3);
/// How often it is asked whether the consumers have given all leases back.
const PERIOD: Duration = Duration::from_millis(50);

impl Brain {
    /// No new leases; STOPPING; what runs is finished and what is held given back by its consumers; STOPPED. Whatever takes
    /// longer than the drain's time is left to other pods: it stands in the store.
    pub(super) async fn drain(&mut self) {
        let end = Instant::now() + self.drain;
        let last_word = end - LAST_WORD.min(self.drain / 4);
        tracing::info!(limit.seconds = self.drain.as_secs_f64(), "draining");
        self.leases.refuse_new();
        self.stopping.cancel();
        let finished = async {
            if let Err(error) = self.registry.stopping().await {
                tracing::warn!(error = in_full(&error), "could not say that this pod stops");
            }
            let _ = (&mut self.working.cleaning).await;
            let _ = (&mut self.working.sweeping).await;
            self.runner.idle().await;
            while self.leases.held_here() > 0 {
                sleep(PERIOD).await;
            }
            self.leases.close().await;
        };
        if timeout_at(last_word, finished).await.is_err() {
            tracing::warn!("not all was finished in time; other pods go on with it");
            self.working.cleaning.abort();
        }
        match self.leases.held_here() {
            0 => match timeout_at(end, self.registry.stopped()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(
                    error = in_full(&error),
                    "could not say that this pod has stopped; it will be found dead"
                ),
                Err(_) => tracing::warn!(
                    "could not say in time that this pod has stopped; it will be found dead"
                ),
            },
            // What runs under them may go on until this process ends. To call it stopped would free their slots now.
            held => tracing::warn!(
                held,
                "leases are still held here; they come back when this pod is found dead"
            ),
        }
        self.site.closed.cancel();
        let _ = timeout_at(end, &mut self.working.serving).await;
    }
}
