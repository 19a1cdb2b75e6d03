//! Documents that are not merged: the most specific layer's counts, whole.

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
    let Ok(addresses) = addresses(tenancy, path) else {
        return Ok(None);
    };
    let layers = [Layer::Project, Layer::Tenant, Layer::System];
    let texts = timeout(DEADLINE, documents.get_all(&addresses))
        .await
        .unwrap_or(Err(DocumentStoreError::Timeout(DEADLINE)))?;
    let [.., system] = &addresses;
    let bundled = bundled(path).map(|text| (Layer::Bundled, system, text.to_owned()));
    let mut stored = layers
        .into_iter()
        .zip(&addresses)
        .zip(texts)
        .filter_map(|((layer, address), text)| Some((layer, address, text?)));
    let found = stored.next().or(bundled);
    Ok(found.map(|(layer, address, text)| WholeDocument {
        layer,
        address: address.clone(),
        text,
    }))
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
