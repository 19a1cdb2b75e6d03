use futures_util::TryStreamExt;
use mongodb::bson::doc;
use mongodb::error::{Error, ErrorKind, Result};
use tokio::sync::watch;

use super::Backoff;
use crate::definition::documents::{MongoDocuments, address_of};
use crate::definition::resolver::DefinitionResolver;

/// What a server without an oplog answers.
const CHANGE_STREAMS_NEED_REPLICA_SET: i32 = 40573;

pub(super) async fn follow(
    resolver: &DefinitionResolver,
    documents: &MongoDocuments,
    established: &watch::Sender<bool>,
) {
    let mut backoff = Backoff::new();
    loop {
        let ended = events(resolver, documents, established, &mut backoff).await;
        // What happened since the last event is unknown.
        resolver.invalidate_all();
        match ended {
            Err(error) if code(&error) == Some(CHANGE_STREAMS_NEED_REPLICA_SET) => {
                tracing::info!(
                    "this MongoDB server is no replica set and has no change streams: definitions follow the changes of other processes within 60 s"
                );
                established.send_replace(true);
                return std::future::pending().await;
            }
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "lost the change stream of documents, opening it again"
            ),
            Ok(()) => tracing::warn!(
                "the collection of documents was dropped or renamed, opening its change stream again"
            ),
        }
        backoff.pause().await;
    }
}

/// Invalidates what each event bears on, until the stream ends with its collection.
async fn events(
    resolver: &DefinitionResolver,
    documents: &MongoDocuments,
    established: &watch::Sender<bool>,
    backoff: &mut Backoff,
) -> Result<()> {
    // A plain aggregation, for `watch` resumes by itself and loses events: when the aggregation by which the driver
    // (3.9.1) resumes is cut off and sent again, the second copy has no resume token and begins with the present.
    // Here any failure drops everything and begins anew. Only the address of what changed is of interest.
    let pipeline = [
        doc! { "$changeStream": {} },
        doc! { "$project": { "documentKey": 1 } },
    ];
    let mut stream = documents.collection().aggregate(pipeline).await?;
    // The stream tells what changes from now on; this drops what changed before.
    resolver.invalidate_all();
    established.send_replace(true);
    while let Some(event) = stream.try_next().await? {
        *backoff = Backoff::new();
        match event.get_document("documentKey").ok().and_then(address_of) {
            Some(address) => resolver.invalidate(&address),
            // The collection was dropped or renamed, or the document is none of ours.
            None => resolver.invalidate_all(),
        }
    }
    Ok(())
}

fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(error) => Some(error.code),
        _ => None,
    }
}
