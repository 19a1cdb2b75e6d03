//! Follows the changes of documents and drops the definitions that they bear on.
//!
//! No periodic look is needed beside the events: a cached definition is never older than 60 s, so an event that was
//! lost (a network mount, a full queue) is felt no longer than that.

mod change_stream;
mod directory;

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::documents::ConfigDocuments;
use super::resolver::DefinitionResolver;

/// Keeps a resolver's cache following the changes of other processes. Dropping it ends that.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct DefinitionWatch {
    task: AbortOnDropHandle<()>,
    established: watch::Receiver<bool>,
}

impl DefinitionWatch {
    /// Waits until changes are followed: what is written from now on is heard of. Returns at once if that was so
    /// before. On a standalone MongoDB server, which has no change streams, it returns as soon as that is known. Waits on while the documents cannot be
    /// watched.
    pub async fn established(&mut self) {
        // An error means that the task died; `ended` tells.
        let _ = self.established.wait_for(|established| *established).await;
    }

    /// Returns only if the following died, by a panic, with what is known of it. Its owner should then stop or watch
    /// anew; until then definitions change by age alone.
    pub async fn ended(&mut self) -> String {
        match (&mut self.task).await {
            Ok(()) => "the watch of documents ended".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

pub(super) fn start(resolver: DefinitionResolver) -> DefinitionWatch {
    let (sender, established) = watch::channel(false);
    let task = tokio::spawn(async move {
        match resolver.documents().clone() {
            ConfigDocuments::Mongo(documents) => {
                change_stream::follow(&resolver, &documents, &sender).await;
            }
            ConfigDocuments::Directory(documents) => {
                directory::follow(&resolver, &documents, &sender).await;
            }
        }
    });
    DefinitionWatch {
        task: AbortOnDropHandle::new(task),
        established,
    }
}

/// Doubling pauses with full jitter, so that many processes do not come back in step.
struct Backoff {
    most: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(15);

    fn new() -> Self {
        Self { most: Self::FIRST }
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.most.mul_f64(fastrand::f64())).await;
        self.most = (self.most * 2).min(Self::LONGEST);
    }
}
