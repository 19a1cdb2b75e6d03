//! Documents of all layers as they are, for those that are not merged as definitions are.

use std::time::Duration;

use tokio::time::timeout;

use super::documents::{ConfigDocuments, DocumentAddress, DocumentStoreError};
use super::layer::Layer;
use crate::name::InvalidName;
use crate::scope::{SYSTEM_TENANT, TENANT_PROJECT, Tenancy};

/// How long reading may take.
const DEADLINE: Duration = Duration::from_millis(4500);

/// A document as its layer has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeDocument {
    /// The layer.
    pub layer: Layer,
    /// Where it is. A bundled one has the system layer's address.
    pub address: DocumentAddress,
    /// What it says.
    pub text: String,
}

/// The document at `path` that holds for `tenancy`: that of the project, or else of the tenant, of the system, of this
/// binary. Of two layers nothing is mixed: a project could otherwise point another's credentials at its own address.
///
/// # Errors
/// A layer could not be read: which document would have held is not known, so none does.
pub async fn most_specific(
    documents: &ConfigDocuments,
    bundled: fn(&str) -> Option<&'static str>,
    tenancy: &Tenancy,
    path: &str,
) -> Result<Option<WholeDocument>, DocumentStoreError> {
    let found = all_layers(documents, bundled, tenancy, path).await?;
    Ok(found.into_iter().next())
}

/// The documents at `path` that bear on `tenancy`, the most specific first.
///
/// # Errors
/// A layer could not be read.
pub async fn all_layers(
    documents: &ConfigDocuments,
    bundled: fn(&str) -> Option<&'static str>,
    tenancy: &Tenancy,
    path: &str,
) -> Result<Vec<WholeDocument>, DocumentStoreError> {
    let Ok(addresses) = addresses(tenancy, path) else {
        return Ok(Vec::new());
    };
    let texts = timeout(DEADLINE, documents.get_all(&addresses))
        .await
        .unwrap_or(Err(DocumentStoreError::Timeout(DEADLINE)))?;
    let bundled = bundled(path).map(str::to_owned);
    let [.., system] = addresses.clone();
    let layers = [Layer::Project, Layer::Tenant, Layer::System, Layer::Bundled];
    let found = layers
        .into_iter()
        .zip(addresses.into_iter().chain([system]))
        .zip(texts.into_iter().chain([bundled]));
    let document = |((layer, address), text): (_, Option<String>)| {
        let text = text?;
        Some(WholeDocument {
            layer,
            address,
            text,
        })
    };
    Ok(found.filter_map(document).collect())
}

/// The most specific first. No path that is none has a document.
fn addresses(tenancy: &Tenancy, path: &str) -> Result<[DocumentAddress; 3], InvalidName> {
    let at = |tenant: &str, project: &str| DocumentAddress::new(tenant, project, path);
    Ok([
        at(tenancy.tenant(), tenancy.project())?,
        at(tenancy.tenant(), TENANT_PROJECT)?,
        at(SYSTEM_TENANT, TENANT_PROJECT)?,
    ])
}
