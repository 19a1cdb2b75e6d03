//! Which MongoDB, which documents, and who asks.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use clap::Args;
use lease_shared::definition::{
    ConfigDocuments, DefinitionResolver, DirectoryDocuments, MongoDocuments,
};
use lease_shared::{InvalidName, LeaseService, StoreError, Tenancy, connect};
use mongodb::Database;
use mongodb::options::{ClientOptions, ServerAddress};

use crate::exit::{USAGE, coded};

#[derive(Args)]
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
        // What follows `mongodb://` may be a password, so the URI is in no message.
        let client = connect(&self.mongodb_uri)
            .await
            .map_err(|error| usage("the MongoDB URI is not usable", &error))?;
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
        let service = LeaseService::builder(database)
            .documents(documents)
            .follow_changes(false)
            .start()
            .await;
        match service {
            Ok(service) => Ok(service),
            Err(error) => Err(self.explain(error).await),
        }
    }

    /// Adds what to do when no server answers. Names the hosts, and nothing else of the URI.
    pub(crate) async fn explain(&self, error: StoreError) -> anyhow::Error {
        if !error.is_unreachable() {
            return error.into();
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
        anyhow::Error::from(error).context(advice)
    }
}

fn usage(problem: &str, error: &StoreError) -> anyhow::Error {
    coded(
        USAGE,
        format!("{problem}: {:#}", anyhow::anyhow!("{}", cause(error))),
    )
}

fn cause(error: &StoreError) -> String {
    std::error::Error::source(error)
        .map(ToString::to_string)
        .unwrap_or_default()
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

/// Adds the step to a store's error, and what to do if no server answers.
pub(crate) async fn asked<T>(
    connection: &Connection,
    answer: Result<T, StoreError>,
) -> anyhow::Result<T> {
    match answer {
        Ok(value) => Ok(value),
        Err(error) => {
            Err(connection.explain(error).await).context("the lease store cannot be asked")
        }
    }
}
