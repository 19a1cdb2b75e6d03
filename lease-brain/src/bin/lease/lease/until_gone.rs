//! Waits for the clean-up of a revoked lease.

use std::time::Duration;

use lease_brain::cluster::PodLiveness;
use lease_brain::words;
use lease_shared::{CleanupPhase, CleanupView, LeaseToken, LeaseViews};
use mongodb::Database;

use crate::ticker::{Ticker, ticking};

/// How often the store is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Is the lease gone within the limit? Says on standard error what is going on meanwhile. A store that does not answer is
/// waited for as well: the revocation stands.
pub(crate) async fn until_gone(token: &LeaseToken, database: &Database, limit: Duration) -> bool {
    let views = LeaseViews::new(database.clone());
    let ticker = Ticker::new(Some(limit));
    let look = async {
        loop {
            match views.holder(token).await {
                Ok(None) => return,
                Ok(Some(holder)) => {
                    if let Some(cleanup) = &holder.cleanup {
                        let (what, more) = told(cleanup, anybody(database).await);
                        ticker.borrow_mut().tell(&what, &more);
                    }
                }
                Err(_) => ticker.borrow_mut().tell(
                    "the lease store cannot be asked; what goes on is unknown",
                    "",
                ),
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(limit, ticking(&ticker, look))
        .await
        .is_ok()
}

/// Is any pod alive? Not known counts as yes: it is no news.
async fn anybody(database: &Database) -> bool {
    let pods = PodLiveness::read(database, None).await;
    pods.map_or(true, |pods| pods.pods().iter().any(|pod| pod.alive))
}

fn told(cleanup: &CleanupView, anybody: bool) -> (String, String) {
    let mut what = words::phase(cleanup);
    if let Some(error) = &cleanup.last_error {
        what = format!("{what}: {error}");
    }
    if !anybody {
        what = format!("{what}; no pod is alive to do it: start a brain");
    }
    let more = match cleanup.phase {
        CleanupPhase::Running => String::new(),
        CleanupPhase::HolderEnding => format!(
            ", for {} at most",
            words::seconds(cleanup.next_try_in_seconds)
        ),
        CleanupPhase::Waiting | CleanupPhase::Failed => {
            format!(", next try {}", words::next_try(cleanup))
        }
    };
    (what, more)
}
