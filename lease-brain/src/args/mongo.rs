use std::collections::HashSet;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use lease_shared::definition::{ConfigDocuments, DirectoryDocuments, MongoDocuments};
use lease_shared::{StoreError, connect};
use mongodb::Database;
use mongodb::options::{ClientOptions, ServerAddress};

/// Which MongoDB, and which documents.
#[derive(Args, Clone)]
#[command(next_help_heading = "Store")]
pub struct MongoArgs {
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

/// Where definition documents live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentsAt {
    /// In a collection.
    Mongo,
    /// In a directory.
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

/// The MongoDB URI does not parse or does not resolve.
#[derive(Debug, thiserror::Error)]
#[error(
    "the MongoDB URI is not usable: {cause}; it looks like mongodb://USER:PASSWORD@HOST:PORT/DATABASE, with special \
     characters in user and password percent-encoded"
)]
pub struct UnusableUri {
    cause: String,
}

impl MongoArgs {
    /// The database, with the time limits that leases need. Sends nothing yet.
    pub async fn database(&self) -> Result<Database, UnusableUri> {
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

    /// Where the definitions live; `database` is that of [`database`](Self::database).
    pub fn documents(&self, database: &Database) -> ConfigDocuments {
        match &self.documents {
            DocumentsAt::Mongo => ConfigDocuments::Mongo(MongoDocuments::new(database)),
            DocumentsAt::Directory(root) => {
                ConfigDocuments::Directory(DirectoryDocuments::new(root))
            }
        }
    }

    /// The hosts that the URI names, and nothing else of it.
    pub async fn hosts(&self) -> Vec<String> {
        let hosts = ClientOptions::parse(&self.mongodb_uri)
            .await
            .map(|options| options.hosts)
            .unwrap_or_default();
        hosts.iter().map(ServerAddress::to_string).collect()
    }

    /// Says what is wrong with the URI without a word of what may be a password: where one stands that is not
    /// percent-encoded, the driver takes a part of it for the host or the port, and tells.
    fn unusable(&self, error: &StoreError) -> UnusableUri {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        UnusableUri {
            cause: before_any_of(&cause.unwrap_or_default(), &self.mongodb_uri),
        }
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
