use std::collections::HashMap;
use std::time::Duration;

use futures_util::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{
    Acknowledgment, CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern,
};
use mongodb::{Collection, Database};

use super::{DocumentAddress, DocumentStoreError};
use crate::definition::document_error::escaped;

const COLLECTION: &str = "documents";
const ID: &str = "_id";
const TENANT: &str = "tenant";
const PROJECT: &str = "project";
const PATH: &str = "path";
const CONTENT: &str = "content";
const UPDATED_AT: &str = "updatedAt";

/// Documents in the collection `documents`: `{_id: {tenant, project, path}, content, updatedAt}`.
///
/// The address is the `_id` so that the change event of a deletion still names the document. Whatever the URI says,
/// reads go to the primary with read concern majority, which is also what change streams report, and writes wait for
/// a majority and the journal.
#[derive(Debug, Clone)]
pub struct MongoDocuments {
    collection: Collection<Document>,
}

impl MongoDocuments {
    /// Documents in `database`. Sends nothing.
    pub fn new(database: &Database) -> Self {
        let options = CollectionOptions::builder()
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(ReadConcern::majority())
            .write_concern(
                WriteConcern::builder()
                    .w(Acknowledgment::Majority)
                    .journal(true)
                    .w_timeout(Duration::from_secs(4))
                    .build(),
            )
            .build();
        Self {
            collection: database.collection_with_options(COLLECTION, options),
        }
    }

    pub(crate) fn collection(&self) -> &Collection<Document> {
        &self.collection
    }

    pub(super) async fn get_all(
        &self,
        addresses: &[DocumentAddress],
    ) -> Result<Vec<Option<String>>, DocumentStoreError> {
        let read = async {
            let ids: Vec<Document> = addresses.iter().map(id_of).collect();
            let cursor = self.collection.find(doc! { ID: { "$in": ids } }).await?;
            cursor.try_collect::<Vec<Document>>().await
        };
        let found = read
            .await
            .map_err(|error| failed("read documents", error))?;
        let mut texts = HashMap::new();
        for mut document in found {
            let address = address_of(&document);
            match (address, document.remove(CONTENT)) {
                (Some(address), Some(Bson::String(text))) => texts.insert(address, text),
                _ => {
                    let id = document
                        .get(ID)
                        .map(ToString::to_string)
                        .unwrap_or_default();
                    return Err(DocumentStoreError::Unusable {
                        document: format!("the stored document {}", escaped(&id)),
                        problem: format!("it has no text in `{CONTENT}`"),
                    });
                }
            };
        }
        Ok(addresses
            .iter()
            .map(|address| texts.remove(address))
            .collect())
    }

    pub(super) async fn put(
        &self,
        address: &DocumentAddress,
        text: &str,
    ) -> Result<(), DocumentStoreError> {
        let change = doc! { "$set": { CONTENT: text }, "$currentDate": { UPDATED_AT: true } };
        self.collection
            .update_one(doc! { ID: id_of(address) }, change)
            .upsert(true)
            .await
            .map_err(|error| failed(&format!("write document {address}"), error))?;
        Ok(())
    }

    pub(super) async fn remove(
        &self,
        address: &DocumentAddress,
    ) -> Result<bool, DocumentStoreError> {
        let removed = self
            .collection
            .delete_one(doc! { ID: id_of(address) })
            .await
            .map_err(|error| failed(&format!("remove document {address}"), error))?;
        Ok(removed.deleted_count > 0)
    }

    pub(super) async fn list(
        &self,
        tenant: Option<&str>,
        project: Option<&str>,
    ) -> Result<Vec<DocumentAddress>, DocumentStoreError> {
        let mut filter = Document::new();
        for (field, wanted) in [(TENANT, tenant), (PROJECT, project)] {
            if let Some(wanted) = wanted {
                filter.insert(format!("{ID}.{field}"), doc! { "$eq": wanted });
            }
        }
        let read = async {
            let cursor = self
                .collection
                .find(filter)
                .projection(doc! { ID: 1 })
                .await?;
            cursor.try_collect::<Vec<Document>>().await
        };
        let found = read
            .await
            .map_err(|error| failed("list documents", error))?;
        let mut addresses = Vec::with_capacity(found.len());
        for document in &found {
            match address_of(document) {
                Some(address) => addresses.push(address),
                None => {
                    tracing::warn!(document.id = ?document.get(ID), "skipped a document whose _id is no address")
                }
            }
        }
        addresses.sort();
        Ok(addresses)
    }
}

/// The `_id`: embedded documents compare field by field in order, so there is one order.
fn id_of(address: &DocumentAddress) -> Document {
    doc! { TENANT: address.tenant(), PROJECT: address.project(), PATH: address.path() }
}

/// The address in the `_id` of a stored document or of a change event's `documentKey`.
pub(crate) fn address_of(document: &Document) -> Option<DocumentAddress> {
    let id = document.get_document(ID).ok()?;
    let text = |field| id.get_str(field).ok();
    DocumentAddress::new(text(TENANT)?, text(PROJECT)?, text(PATH)?).ok()
}

fn failed(action: &str, error: mongodb::error::Error) -> DocumentStoreError {
    DocumentStoreError::Mongo {
        action: action.to_owned(),
        source: Box::new(error),
    }
}
