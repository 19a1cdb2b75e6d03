//! From a pod to nothing, in order.

use std::time::Duration;

use lease_shared::in_full;
use tokio::time::{Instant, sleep, timeout_at};

use super::Brain;
use crate::cluster::PodError;

/// How long a drain that has no time left may take to say that it is over.
const LAST_WORD: Duration = Duration::from_secs(2);
/// How often it is asked whether the consumers have given all leases back.
const PERIOD: Duration = Duration::from_millis(50);

impl Brain {
    /// No new leases; STOPPING; what runs is finished and what is held given back by its consumers; STOPPED. Whatever takes
    /// longer than the drain's time is left to other pods: it stands in the store.
    pub(super) async fn drain(&mut self) {
        let end = after(self.drain);
        tracing::info!(limit.seconds = self.drain.as_secs_f64(), "draining");
        self.leases.refuse_new();
        self.stopping.cancel();
        let finished = async {
            said(end, "stops", self.registry.stopping()).await;
            let cleaned = async {
                let _ = (&mut self.working.cleaning).await;
                let _ = (&mut self.working.sweeping).await;
                self.runner.idle().await;
            };
            let closed = async {
                if let Some(mcp) = &self.mcp {
                    mcp.close_all().await;
                }
            };
            let compiled = async {
                if let Some(tex) = &self.tex {
                    tex.idle().await;
                }
            };
            tokio::join!(cleaned, closed, compiled);
            while self.leases.held_here() > 0 {
                sleep(PERIOD).await;
            }
            self.leases.close().await;
            if self.mcp.is_some() {
                // At last, for no lease is held by what this waits for.
                mcp_client::settled().await;
            }
        };
        // What takes longer is ended in time to give its lease back.
        let tex = self.tex.clone();
        let late = async {
            tokio::time::sleep_until(end.checked_sub(LAST_WORD).unwrap_or(end)).await;
            if let Some(tex) = tex {
                tex.end_all();
            }
            std::future::pending::<()>().await;
        };
        let finished = async {
            tokio::select! {
                () = finished => {}
                () = late => {}
            }
        };
        if timeout_at(end, finished).await.is_err() {
            tracing::warn!("not all was finished in time; other pods go on with it");
            self.working.cleaning.abort();
        }
        // Not said, it is found dead.
        let until = end.max(Instant::now() + LAST_WORD);
        match self.leases.held_here() {
            0 => said(until, "has stopped", self.registry.stopped()).await,
            // What runs under them may go on until this process ends. To call it stopped would free their slots now.
            held => tracing::warn!(
                held,
                "leases are still held here; they come back when this pod is found dead"
            ),
        }
        self.site.closed.cancel();
        let _ = timeout_at(until, &mut self.working.serving).await;
    }
}

/// A moment that far from now, or one that nobody lives to see.
fn after(limit: Duration) -> Instant {
    const LONG: Duration = Duration::from_secs(365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(limit).unwrap_or_else(|| now + LONG)
}

/// Writes where this pod stands, unless the store takes longer than there is time.
async fn said(until: Instant, what: &str, saying: impl Future<Output = Result<(), PodError>>) {
    let problem = match timeout_at(until, saying).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => in_full(&error),
        Err(_) => "the store did not answer in time".to_owned(),
    };
    tracing::warn!(problem, "could not say that this pod {what}");
}

#[test]
fn drain_without_an_end_ends_after_all_else() {
    assert!(after(Duration::MAX) > after(Duration::from_secs(24 * 3600)));
}
