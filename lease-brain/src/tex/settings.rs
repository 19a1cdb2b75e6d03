//! What the settings say of TeX: under which lease, where, and by which engines.
//!
//! Settings are documents at `_vance/config/settings.yaml`, flat keys, in the four layers of definitions. The most specific
//! layer that says `tex.lease` decides that. Where documents are compiled (`tex.executor` with all of `tex.rbehzadan.*`) is
//! taken as one group from one layer, never a project's: an address and a key from two hands would send the one's key to the
//! other's address.

use std::time::Duration;

use lease_shared::definition::{
    ConfigDocuments, DocumentAddress, DocumentError, DocumentStoreError, Layer, WholeDocument,
    all_layers, read_document,
};
use lease_shared::{InvalidName, LeaseRef, Tenancy};
use reqwest::Url;
use serde::Deserialize;

use crate::document_fields::{Seconds, Secret, Text, plain_url, present};
use crate::secrets::SecretName;

/// Where settings are, within a tenant and project.
const PATH: &str = "_vance/config/settings.yaml";
/// The lease where no layer says.
const LEASE: &str = "tex";

/// What holds for someone.
#[derive(Debug, Clone)]
pub(crate) struct TexSettings {
    pub(crate) lease: LeaseRef,
    pub(crate) executor: ExecutorSettings,
    pub(crate) allow_lualatex: bool,
}

/// Where documents are compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExecutorSettings {
    Local,
    Rbehzadan(Box<Rbehzadan>),
}

/// A tex2pdf service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rbehzadan {
    pub(crate) url: Url,
    pub(crate) api_key: Option<ApiKey>,
    pub(crate) timeout: Duration,
    pub(crate) poll_interval: Duration,
}

/// Which secret, and the layer whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiKey {
    pub(crate) name: SecretName,
    pub(crate) layer: Layer,
    pub(crate) address: DocumentAddress,
}

/// Why it is not known what holds.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// A layer's document breaks a rule. It might say what protects the resource, so it is not skipped.
    #[error(transparent)]
    Broken(#[from] DocumentError),
    /// A layer could not be read.
    #[error("the settings could not be read")]
    Unavailable(#[source] DocumentStoreError),
    /// The lease's usual name is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "tex.lease", default, deserialize_with = "present")]
    lease: Option<String>,
    #[serde(rename = "tex.allowLualatex", default, deserialize_with = "present")]
    allow_lualatex: Option<bool>,
    #[serde(rename = "tex.executor", default, deserialize_with = "present")]
    executor: Option<ExecutorName>,
    #[serde(rename = "tex.rbehzadan.url", default, deserialize_with = "present")]
    url: Option<Text>,
    #[serde(rename = "tex.rbehzadan.apiKey", default, deserialize_with = "present")]
    api_key: Option<Secret>,
    #[serde(
        rename = "tex.rbehzadan.timeoutSeconds",
        default,
        deserialize_with = "present"
    )]
    timeout: Option<Seconds>,
    #[serde(
        rename = "tex.rbehzadan.pollIntervalSeconds",
        default,
        deserialize_with = "present"
    )]
    poll_interval: Option<Seconds>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum ExecutorName {
    Local,
    Rbehzadan,
}

/// What one layer says, checked as a whole.
struct Said {
    lease: Option<LeaseRef>,
    allow_lualatex: Option<bool>,
    executor: Option<ExecutorSettings>,
}

/// Checks a text that is to be stored at `address`, if that is the address of settings.
///
/// # Errors
/// Nobody could use what it says.
pub fn check_settings(address: &DocumentAddress, text: &str) -> Result<bool, DocumentError> {
    if address.path() != PATH {
        return Ok(false);
    }
    let Some(layer) = Layer::of(address) else {
        let problem = "no layer reads this address; the system layer is _vance/_tenant, a tenant's <tenant>/_tenant";
        return Err(DocumentError::new(None, address, problem));
    };
    Said::read(&WholeDocument {
        layer,
        address: address.clone(),
        text: text.to_owned(),
    })
    .map(|_| true)
}

impl TexSettings {
    /// What holds for someone now.
    pub(crate) async fn find(
        documents: &ConfigDocuments,
        tenancy: &Tenancy,
    ) -> Result<Self, SettingsError> {
        let layers = all_layers(documents, defaults::bundled, tenancy, PATH)
            .await
            .map_err(SettingsError::Unavailable)?;
        let said = layers
            .iter()
            .map(Said::read)
            .collect::<Result<Vec<_>, _>>()?;
        let lease = said.iter().find_map(|said| said.lease.clone());
        Ok(Self {
            lease: lease.map_or_else(|| LeaseRef::named(LEASE), Ok)?,
            executor: said
                .iter()
                .find_map(|said| said.executor.clone())
                .unwrap_or(ExecutorSettings::Local),
            allow_lualatex: said.iter().find_map(|said| said.allow_lualatex) == Some(true),
        })
    }
}

impl Said {
    fn read(document: &WholeDocument) -> Result<Self, DocumentError> {
        let WholeDocument {
            layer,
            address,
            text,
        } = document;
        let written: Written = read_document(text, Some(*layer), address)?;
        let refuse = |field: &str, problem: &str| {
            DocumentError::new(Some(*layer), address, problem).in_field(text, field)
        };
        let lease = match written.lease.as_deref() {
            None => None,
            Some("" | "none") => Some(LeaseRef::None),
            Some(name) => Some(LeaseRef::named(name).map_err(|invalid| {
                let problem = format!("{}; `none` is for no lease", invalid.rule);
                refuse("tex.lease", &problem).value(Some(name))
            })?),
        };
        if written.allow_lualatex.is_some() && !matches!(layer, Layer::Bundled | Layer::System) {
            let problem = "belongs to the system layer: lualatex runs programs that a document brings with it";
            return Err(refuse("tex.allowLualatex", problem));
        }
        let group = [
            ("tex.executor", written.executor.is_some()),
            ("tex.rbehzadan.url", written.url.is_some()),
            ("tex.rbehzadan.apiKey", written.api_key.is_some()),
            ("tex.rbehzadan.timeoutSeconds", written.timeout.is_some()),
            (
                "tex.rbehzadan.pollIntervalSeconds",
                written.poll_interval.is_some(),
            ),
        ];
        let Some((mentioned, _)) = group.iter().find(|(_, there)| *there) else {
            return Ok(Self {
                lease,
                allow_lualatex: written.allow_lualatex,
                executor: None,
            });
        };
        if *layer == Layer::Project {
            let problem = "belongs to the system's or the tenant's layer: remove it";
            return Err(refuse(mentioned, problem));
        }
        let executor = match (written.executor, written.url) {
            (None, _) => {
                let problem = format!(
                    "is missing: {mentioned} counts together with it; write `rbehzadan` or `local`"
                );
                return Err(refuse("tex.executor", &problem));
            }
            (Some(ExecutorName::Local), _) => ExecutorSettings::Local,
            (Some(ExecutorName::Rbehzadan), None) => {
                let problem = "is missing: the executor rbehzadan needs it";
                return Err(refuse("tex.rbehzadan.url", problem));
            }
            (Some(ExecutorName::Rbehzadan), Some(Text(url))) => {
                let url =
                    plain_url(&url).map_err(|problem| refuse("tex.rbehzadan.url", problem))?;
                if url.query().is_some() {
                    return Err(refuse("tex.rbehzadan.url", "must have no query"));
                }
                let api_key = written.api_key.map(|key| ApiKey {
                    name: key.0,
                    layer: *layer,
                    address: address.clone(),
                });
                let seconds = |given: Option<Seconds>, otherwise| {
                    given.map_or(Duration::from_secs(otherwise), |given| given.0)
                };
                ExecutorSettings::Rbehzadan(Box::new(Rbehzadan {
                    url,
                    api_key,
                    timeout: seconds(written.timeout, 300),
                    poll_interval: seconds(written.poll_interval, 3),
                }))
            }
        };
        Ok(Self {
            lease,
            allow_lualatex: written.allow_lualatex,
            executor: Some(executor),
        })
    }
}

#[cfg(test)]
mod tests;
