//! Configuration documents, in MongoDB or in a directory.

mod address;
mod directory;
mod mongo;

pub use address::DocumentAddress;
pub use directory::DirectoryDocuments;
pub use mongo::MongoDocuments;
pub(crate) use mongo::address_of;

/// Where configuration documents are kept.
///
/// A document is text at a [`DocumentAddress`]; nothing here looks into it.
#[derive(Debug, Clone)]
pub enum ConfigDocuments {
    /// In the collection `documents` of a MongoDB database.
    Mongo(MongoDocuments),
    /// As files below a directory.
    Directory(DirectoryDocuments),
}

/// A document that could not be read or written. What it holds is then unknown, which is not the same as absent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentStoreError {
    /// MongoDB did not answer, or refused.
    #[error("{action} in MongoDB")]
    Mongo {
        /// What was tried, and on which document.
        action: String,
        /// The driver's error.
        #[source]
        source: Box<mongodb::error::Error>,
    },
    /// The file system refused.
    #[error("{action}")]
    File {
        /// What was tried, and on which file.
        action: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A stored document is not one of ours.
    #[error("read {document}: {problem}")]
    Unusable {
        /// The document.
        document: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No answer in time.
    #[error("read documents: no answer within {0:?}")]
    Timeout(std::time::Duration),
}

impl ConfigDocuments {
    /// The text of the document at `address`; `None` if there is none.
    pub async fn get(
        &self,
        address: &DocumentAddress,
    ) -> Result<Option<String>, DocumentStoreError> {
        let mut texts = self.get_all(std::slice::from_ref(address)).await?;
        Ok(texts.pop().flatten())
    }

    /// The texts of the documents at `addresses`, in that order: one read for all. Fails if one cannot be read.
    pub async fn get_all(
        &self,
        addresses: &[DocumentAddress],
    ) -> Result<Vec<Option<String>>, DocumentStoreError> {
        match self {
            Self::Mongo(documents) => documents.get_all(addresses).await,
            Self::Directory(documents) => documents.get_all(addresses).await,
        }
    }

    /// Writes the document at `address`, whole, over what is there. After an error it may be written all the same.
    ///
    /// Definitions cached by a [`DefinitionResolver`](super::DefinitionResolver) of this process follow at once if the
    /// write goes through [`DefinitionResolver::put`](super::DefinitionResolver::put).
    pub async fn put(
        &self,
        address: &DocumentAddress,
        text: &str,
    ) -> Result<(), DocumentStoreError> {
        match self {
            Self::Mongo(documents) => documents.put(address, text).await,
            Self::Directory(documents) => documents.put(address, text).await,
        }
    }

    /// Removes the document at `address`; `false` if there was none. After an error it may be gone all the same.
    pub async fn remove(&self, address: &DocumentAddress) -> Result<bool, DocumentStoreError> {
        match self {
            Self::Mongo(documents) => documents.remove(address).await,
            Self::Directory(documents) => documents.remove(address).await,
        }
    }

    /// The addresses of all documents, of one tenant or one project name if given, in order.
    pub async fn list(
        &self,
        tenant: Option<&str>,
        project: Option<&str>,
    ) -> Result<Vec<DocumentAddress>, DocumentStoreError> {
        match self {
            Self::Mongo(documents) => documents.list(tenant, project).await,
            Self::Directory(documents) => documents.list(tenant, project).await,
        }
    }
}
