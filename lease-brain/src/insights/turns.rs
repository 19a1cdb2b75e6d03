//! How much the views of all tenants may ask of the store at once. The pod's own heartbeat and clean-ups go over the same
//! connections, and must not wait behind pages that somebody left open.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Requests, and reads for open pages, at once.
const REQUESTS: usize = 16;
const OPEN_PAGES: usize = 6;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(3);

/// Who may ask the store now. First come, first served.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    requests: Arc<Semaphore>,
    open_pages: Arc<Semaphore>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(REQUESTS)),
            open_pages: Arc::new(Semaphore::new(OPEN_PAGES)),
        }
    }
}

impl Turns {
    /// The turn of a request; nothing, if it does not come soon.
    pub(crate) async fn of_request(&self) -> Option<Turn> {
        timeout(PATIENCE, turn(&self.requests)).await.ok()?
    }

    /// The turn of a page that is kept up to date, whenever it comes.
    pub(crate) async fn of_open_page(&self) -> Option<Turn> {
        turn(&self.open_pages).await
    }
}

/// Nothing only if nobody ever gets one again, which is never so.
async fn turn(places: &Arc<Semaphore>) -> Option<Turn> {
    let permit = Arc::clone(places).acquire_owned().await;
    Some(Turn {
        _permit: permit.ok()?,
    })
}
