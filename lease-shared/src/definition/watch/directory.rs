use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::Backoff;
use crate::definition::documents::DirectoryDocuments;
use crate::definition::resolver::DefinitionResolver;

/// How long to wait after an event: an editor, a checkout or a ConfigMap's swap makes many.
const DEBOUNCE: Duration = Duration::from_millis(250);

pub(super) async fn follow(
    resolver: &DefinitionResolver,
    documents: &DirectoryDocuments,
    established: &watch::Sender<bool>,
) {
    let mut backoff = Backoff::new();
    loop {
        // One place is enough: an event means only that something changed.
        let (sender, mut events) = mpsc::channel(1);
        match open(documents, sender).await {
            Ok(mut watcher) => {
                resolver.invalidate_all();
                established.send_replace(true);
                while events.recv().await.is_some() {
                    sleep(DEBOUNCE).await;
                    while events.try_recv().is_ok() {}
                    // Folders that appeared with files in them, and those behind a swapped link, are found by looking
                    // anew; what is there by then is dropped below, what comes later is heard of.
                    match walk(watcher, documents).await {
                        Ok(again) => watcher = again,
                        Err(error) => {
                            warn(&error);
                            break;
                        }
                    }
                    resolver.invalidate_all();
                    backoff = Backoff::new();
                }
            }
            Err(error) => warn(&error),
        }
        resolver.invalidate_all();
        backoff.pause().await;
    }
}

/// A watcher of the whole tree, folders only: a watch on a file dies when the file is replaced.
async fn open(
    documents: &DirectoryDocuments,
    sender: mpsc::Sender<()>,
) -> notify::Result<RecommendedWatcher> {
    let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // Reading a document is no change; an error may hide one.
        if event.is_ok_and(|event| event.kind.is_access() && !event.need_rescan()) {
            return;
        }
        // A full channel already says so.
        let _ = sender.try_send(());
    })?;
    walk(watcher, documents).await
}

/// Watches every folder of the tree that is there now.
async fn walk(
    mut watcher: RecommendedWatcher,
    documents: &DirectoryDocuments,
) -> notify::Result<RecommendedWatcher> {
    let root = documents.root().to_owned();
    let walked = tokio::task::spawn_blocking(move || {
        watcher.watch(&root, RecursiveMode::Recursive)?;
        Ok(watcher)
    });
    walked
        .await
        .unwrap_or_else(|ended| Err(notify::Error::generic(&ended.to_string())))
}

fn warn(error: &notify::Error) {
    tracing::warn!(
        error = error as &dyn std::error::Error,
        "cannot watch the documents' folder, trying again"
    );
}
