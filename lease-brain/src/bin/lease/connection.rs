//! Which MongoDB, which documents, and who asks.

use std::collections::HashSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use lease_brain::handlers::webhook;
use lease_shared::definition::{
    ConfigDocuments, DefinitionResolver, DirectoryDocuments, MongoDocuments,
};
use lease_shared::{
    InvalidName, KnownTypes, LeaseService, StoreError, Tenancy, Unavailable, connect,
};
use mongodb::Database;
use mongodb::error::ErrorKind;
use mongodb::options::{ClientOptions, ServerAddress};

use crate::exit::{UNAVAILABLE, USAGE, coded};

#[derive(Args, Clone)]
#[command(next_help_heading = "Store")]
pub(crate) struct Connection {
    /// The MongoDB that holds the leases.
    #[arg(
        long,
        global = true,
        env = "MONGODB_URI",
        hide_env_values = true,
        value_name = "URI",
        default_value = "mongodb://127.0.0.1:27017"
    )]
    mongodb_uri: String,
    /// The database in it; the URI's own, or else `lease`, if not said.
    #[arg(long, global = true, env = "LEASE_DATABASE", value_name = "NAME")]
    database: Option<String>,
    /// Where definition documents live: `mongo`, or `dir:PATH`.
    #[arg(
        long,
        global = true,
        env = "LEASE_DOCUMENTS",
        value_name = "WHERE",
        default_value = "mongo"
    )]
    documents: DocumentsAt,
}

#[derive(Clone)]
enum DocumentsAt {
    Mongo,
    Directory(PathBuf),
}

impl FromStr for DocumentsAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("dir:")) {
            ("mongo", _) => Ok(Self::Mongo),
            (_, Some(path)) if !path.is_empty() => Ok(Self::Directory(path.into())),
            _ => Err("must be `mongo` or `dir:PATH`".to_owned()),
        }
    }
}

impl Connection {
    pub(crate) async fn database(&self) -> anyhow::Result<Database> {
        let client = connect(&self.mongodb_uri)
            .await
            .map_err(|error| self.unusable(&error))?;
        Ok(match &self.database {
            Some(name) => client.database(name),
            None => client
                .default_database()
                .unwrap_or_else(|| client.database("lease")),
        })
    }

    pub(crate) fn documents(&self, database: &Database) -> ConfigDocuments {
        match &self.documents {
            DocumentsAt::Mongo => ConfigDocuments::Mongo(MongoDocuments::new(database)),
            DocumentsAt::Directory(root) => {
                ConfigDocuments::Directory(DirectoryDocuments::new(root))
            }
        }
    }

    pub(crate) async fn definitions(&self) -> anyhow::Result<DefinitionResolver> {
        let database = self.database().await?;
        Ok(DefinitionResolver::new(self.documents(&database)))
    }

    /// A service that lives as long as one command: it reads a definition once, so it follows no changes.
    pub(crate) async fn leases(&self) -> anyhow::Result<LeaseService> {
        let database = self.database().await?;
        let documents = self.documents(&database);
        // What to call on a revocation is left to a brain.
        let types = KnownTypes::new().with(webhook::lease_type()?, webhook::SLOT_RETURN);
        let service = LeaseService::builder(database)
            .documents(documents)
            .listener(Arc::new(types))
            .follow_changes(false);
        Ok(service.start().await?)
    }

    /// A service for what needs a token and nothing else.
    pub(crate) async fn leases_by_token(&self) -> anyhow::Result<LeaseService> {
        let database = self.database().await?;
        let service = LeaseService::builder(database)
            .follow_changes(false)
            .create_indexes(false);
        Ok(service.start().await?)
    }

    /// Says what is wrong with the URI without a word of what may be a password: where one stands that is not
    /// percent-encoded, the driver takes a part of it for the host or the port, and tells.
    fn unusable(&self, error: &StoreError) -> anyhow::Error {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        let cause = before_any_of(&cause.unwrap_or_default(), &self.mongodb_uri);
        let rule = "it looks like mongodb://USER:PASSWORD@HOST:PORT/DATABASE, with special characters in user and \
                    password percent-encoded";
        coded(
            USAGE,
            format!("the MongoDB URI is not usable: {cause}; {rule}"),
        )
    }

    /// Says what to do when no server answers. Names the hosts, and nothing else of the URI.
    pub(crate) async fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        if !error.chain().any(is_unreachable) {
            return error;
        }
        let hosts = ClientOptions::parse(&self.mongodb_uri)
            .await
            .map(|options| options.hosts)
            .unwrap_or_default();
        let hosts: Vec<String> = hosts.iter().map(ServerAddress::to_string).collect();
        let advice = format!(
            "no MongoDB answers at {}: start one there, or name another with --mongodb-uri or MONGODB_URI (in this \
             project's source, `cargo xtask mongo start` starts one and `cargo xtask mongo uri` names it)",
            hosts.join(", ")
        );
        // The driver's own words are a page on its topology.
        let steps: Vec<String> = error
            .chain()
            .take_while(|cause| !cause.is::<Box<mongodb::error::Error>>())
            .map(ToString::to_string)
            .collect();
        coded(
            UNAVAILABLE,
            format!("LEASE_UNAVAILABLE: {advice}: {}", steps.join(": ")),
        )
    }
}

fn is_unreachable(cause: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = cause.downcast_ref::<StoreError>() {
        error.is_unreachable()
    } else if let Some(Unavailable::Store(error)) = cause.downcast_ref::<Unavailable>() {
        error.is_unreachable()
    } else if let Some(error) = cause.downcast_ref::<Box<mongodb::error::Error>>() {
        matches!(*error.kind, ErrorKind::ServerSelection { .. })
    } else {
        false
    }
}

/// The message up to the first word that also stands in the URI, the scheme and the options' names aside.
fn before_any_of(message: &str, uri: &str) -> String {
    let (_, uri) = uri.split_once("://").unwrap_or(("", uri));
    let secretive = uri.rsplit_once('@').map_or(uri, |(_, host)| host);
    let options = secretive.split_once('?').map_or("", |(_, options)| options);
    let names: Vec<&str> = options
        .split('&')
        .filter_map(|option| Some(option.split_once('=')?.0))
        .collect();
    let is_word = |c: char| c.is_alphanumeric();
    let words: HashSet<&str> = uri
        .split(|c| !is_word(c))
        .filter(|word| !word.is_empty() && !names.contains(word))
        .collect();
    let mut start = 0;
    for word in message.split(|c| !is_word(c)) {
        if words.contains(word) {
            return format!("{}…", &message[..start]);
        }
        start += word.len();
        start += message[start..].chars().next().map_or(0, char::len_utf8);
    }
    message.to_owned()
}

/// Whose slots are taken.
#[derive(Args)]
#[command(next_help_heading = "Holder")]
pub(crate) struct Holder {
    /// The tenant.
    #[arg(long, env = "LEASE_TENANT")]
    tenant: String,
    /// The project, within the tenant.
    #[arg(long, env = "LEASE_PROJECT")]
    project: String,
    /// The user, within the tenant.
    #[arg(long, env = "LEASE_USER")]
    user: String,
}

impl Holder {
    pub(crate) fn tenancy(&self) -> Result<Tenancy, InvalidName> {
        Tenancy::new(&self.tenant, &self.project, &self.user)
    }
}

/// Says what could not be done for lack of an answer.
pub(crate) fn asked<T>(answer: Result<T, StoreError>) -> anyhow::Result<T> {
    answer.context("the lease store cannot be asked")
}
