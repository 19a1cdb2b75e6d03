//! Finds tool documents.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lease_shared::definition::{
    ConfigDocuments, DocumentAddress, DocumentError, DocumentStoreError, Layer, most_specific,
};
use lease_shared::{InvalidName, LeaseName, LeaseRef, Tenancy};
use mcp_client::{
    BoxError, EnvSource, HeaderSource, HttpServer, McpServer, McpTransport, StdioServer,
};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use super::document::{Auth, Setting, ToolDocument, Transport};
use crate::secrets::{SecretName, Secrets};

/// Where tool documents are, within a tenant and project.
const FOLDER: &str = "_vance/config/tools/";

/// The name of a tool: `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`, as a lease's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(LeaseName);

impl ToolName {
    /// Checks `text` against the rule.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        LeaseName::new(text)
            .map(Self)
            .map_err(|invalid| InvalidName {
                kind: "tool name",
                ..invalid
            })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    fn path(&self) -> String {
        format!("{FOLDER}{self}.yaml")
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of the tool whose document stands at `path`, if one can.
pub(crate) fn tool_at(path: &str) -> Option<ToolName> {
    let name = path.strip_prefix(FOLDER)?.strip_suffix(".yaml")?;
    ToolName::new(name).ok()
}

/// Checks a text that is to be stored at `address`, if that is the address of a tool document. False: it is not.
///
/// Commands are let pass: whether one counts is for the brain to say that would execute it.
///
/// # Errors
/// The document would be refused wherever it is used, or read by nobody.
pub fn check_tool(address: &DocumentAddress, text: &str) -> Result<bool, DocumentError> {
    if !address.path().starts_with(FOLDER) {
        return Ok(false);
    }
    let layer = Layer::of(address);
    let refuse = |problem| Err(DocumentError::new(layer, address, problem));
    if tool_at(address.path()).is_none() {
        return refuse("the file's name must match [A-Za-z0-9][A-Za-z0-9_-]{0,63}, then .yaml");
    }
    let Some(layer) = layer else {
        return refuse(
            "no layer reads this address; the system layer is _vance/_tenant, a tenant's <tenant>/_tenant",
        );
    };
    ToolDocument::parse(text, layer, address, true).map(|_| true)
}

/// Why a tool cannot be used by someone now.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// No layer has its document.
    #[error(
        "no document defines the tool `{name}` for {tenancy}: write {} in the system, tenant or project layer", .name.path()
    )]
    Undefined {
        /// The tool.
        name: ToolName,
        /// For whom.
        tenancy: Tenancy,
    },
    /// The most specific document breaks a rule; no other counts in its place.
    #[error(transparent)]
    Broken(DocumentError),
    /// The documents could not be read.
    #[error("the tool's document could not be read")]
    Unavailable(#[source] DocumentStoreError),
}

/// The tool documents of all layers, and the secrets that they name.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    pub(crate) documents: ConfigDocuments,
    pub(crate) secrets: Secrets,
    pub(crate) project_commands: bool,
}

/// A tool as its document describes it.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) server: McpServer,
    pub(crate) lease: LeaseRef,
    /// Changes with the document, and with the layer that it is taken from.
    pub(crate) version: Version,
}

/// Which text at which address describes a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    layer: Layer,
    address: DocumentAddress,
    digest: [u8; 32],
}

impl Tools {
    /// The tool of that name for someone: the most specific layer's document, whole.
    pub(crate) async fn find(&self, tenancy: &Tenancy, name: &ToolName) -> Result<Tool, ToolError> {
        let found = most_specific(&self.documents, defaults::bundled, tenancy, &name.path())
            .await
            .map_err(ToolError::Unavailable)?;
        let found = found.ok_or_else(|| ToolError::Undefined {
            name: name.clone(),
            tenancy: tenancy.clone(),
        })?;
        let document = ToolDocument::parse(
            &found.text,
            found.layer,
            &found.address,
            self.project_commands,
        )
        .map_err(ToolError::Broken)?;
        let owner = Owner {
            secrets: self.secrets.clone(),
            layer: found.layer,
            address: found.address.clone(),
        };
        Ok(Tool {
            server: McpServer {
                name: name.to_string(),
                transport: owner.transport(document.transport),
                call_timeout: document.call_timeout,
                init_timeout: document.init_timeout,
                default_args: document.default_args,
            },
            lease: document.lease,
            version: Version {
                layer: found.layer,
                address: found.address,
                digest: Sha256::digest(found.text.as_bytes()).into(),
            },
        })
    }
}

/// The document that names secrets: its layer's are the only ones it gets.
#[derive(Debug, Clone)]
struct Owner {
    secrets: Secrets,
    layer: Layer,
    address: DocumentAddress,
}

impl Owner {
    fn transport(self, written: Transport) -> McpTransport {
        match written {
            Transport::Http {
                url,
                auth,
                event_stream,
            } => McpTransport::Http(HttpServer {
                url,
                headers: self.headers(auth),
                event_stream,
            }),
            Transport::Stdio {
                program,
                args,
                cwd,
                env,
            } => McpTransport::Stdio(StdioServer {
                program,
                args,
                cwd,
                env: self.env(env),
                guardian: None,
            }),
        }
    }

    fn headers(self, auth: Auth) -> HeaderSource {
        let shared = Arc::new((self, auth));
        Arc::new(move || {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (owner, auth) = &*shared;
                owner.header(auth).await
            })
        })
    }

    async fn header(&self, auth: &Auth) -> Result<HeaderMap, BoxError> {
        let (name, value) = match auth {
            Auth::None => return Ok(HeaderMap::new()),
            Auth::Bearer { token } => {
                let token = self.secret("auth.token", token).await?;
                (AUTHORIZATION, format!("Bearer {}", token.expose_secret()))
            }
            Auth::Basic { user, password } => {
                let password = self.secret("auth.password", password).await?;
                let pair = format!("{user}:{}", password.expose_secret());
                (AUTHORIZATION, format!("Basic {}", STANDARD.encode(pair)))
            }
            Auth::Header { name, value } => {
                let value = self.secret("auth.value", value).await?;
                (name.clone(), value.expose_secret().to_owned())
            }
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| {
            format!(
                "{}: parameters.auth: the secret has characters that no header can carry",
                self.place()
            )
        })?;
        value.set_sensitive(true);
        Ok(HeaderMap::from_iter([(name, value)]))
    }

    fn env(self, env: BTreeMap<String, Setting>) -> EnvSource {
        let shared = Arc::new((self, env));
        Arc::new(move || {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (owner, env) = &*shared;
                let mut resolved = BTreeMap::new();
                for (name, setting) in env {
                    let value = match setting {
                        Setting::Plain(text) => text.clone(),
                        Setting::Secret(secret) => {
                            let field = format!("env.{name}");
                            let value = owner.secret(&field, secret).await?;
                            value.expose_secret().to_owned()
                        }
                    };
                    resolved.insert(name.clone(), value);
                }
                Ok(resolved)
            })
        })
    }

    async fn secret(&self, field: &str, name: &SecretName) -> Result<SecretString, BoxError> {
        let field = format!("parameters.{field}");
        let secrets = &self.secrets;
        let found = secrets.of_document(self.layer, &self.address, &field, name);
        Ok(found.await?)
    }

    fn place(&self) -> String {
        format!("{} document {}", self.layer, self.address)
    }
}

#[cfg(test)]
mod tests;
