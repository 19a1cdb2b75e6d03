use std::collections::HashSet;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use lease_shared::definition::{ConfigDocuments, DirectoryDocuments, MongoDocuments};
use lease_shared::{StoreError, connect};
use mongodb::Database;
use mongodb::options::{ClientOptions, ServerAddress};

use super::InvalidArgs;

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

/// What is said of the MongoDB cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidMongo {
    /// The URI does not parse. It is not shown.
    #[error(
        "the MongoDB URI is not usable: {0}; it looks like mongodb://USER:PASSWORD@HOST:PORT/DATABASE, with special \
         characters in user and password percent-encoded"
    )]
    Uri(String),
    /// The name in the URI cannot be resolved now.
    #[error("the name in the MongoDB URI cannot be resolved now: {0}")]
    Unresolved(String),
    /// No database can have that name, of which as much is shown as a name can have.
    #[error("--database (LEASE_DATABASE) {0:?}: {RULE}")]
    Database(String),
}

/// What the server asks of a database's name.
const RULE: &str =
    "the name of a MongoDB database must be 1 to 63 bytes without blanks and any of / \\ . \" $";

fn is_database(name: &str) -> bool {
    let is_refused = |c: char| c.is_whitespace() || c.is_control() || "/\\.\"$".contains(c);
    (1..=63).contains(&name.len()) && !name.contains(is_refused)
}

/// The start of what may be of any length.
fn cut(text: &str) -> String {
    match text.char_indices().nth(63) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl MongoArgs {
    /// What a process is to run on: judged before it begins, the database with its documents.
    pub(super) fn resolve(self) -> Result<Self, InvalidArgs> {
        self.check()?;
        match &self.documents {
            DocumentsAt::Directory(path) if !path.is_dir() => {
                Err(InvalidArgs::NoDocumentsDir(path.clone()))
            }
            _ => Ok(self),
        }
    }

    /// Judges what can be judged without a look at anything else.
    fn check(&self) -> Result<(), InvalidMongo> {
        // As from a variable that is set to nothing.
        if self.mongodb_uri.is_empty() {
            let problem = "--mongodb-uri (MONGODB_URI) is empty";
            return Err(InvalidMongo::Uri(problem.to_owned()));
        }
        match &self.database {
            Some(name) if !is_database(name) => Err(InvalidMongo::Database(cut(name))),
            _ => Ok(()),
        }
    }

    /// The database, with the time limits that leases need. Sends nothing to a server yet.
    pub async fn database(&self) -> Result<Database, InvalidMongo> {
        self.check()?;
        let client = connect(&self.mongodb_uri)
            .await
            .map_err(|error| self.unusable(&error))?;
        if let Some(name) = &self.database {
            return Ok(client.database(name));
        }
        match client.default_database() {
            Some(database) if !is_database(database.name()) => {
                Err(InvalidMongo::Uri(RULE.to_owned()))
            }
            Some(database) => Ok(database),
            None => Ok(client.database("lease")),
        }
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
    fn unusable(&self, error: &StoreError) -> InvalidMongo {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        let cause = before_any_of(&cause.unwrap_or_default(), &self.mongodb_uri);
        match error.is_unresolved() {
            true => InvalidMongo::Unresolved(cause),
            false => InvalidMongo::Uri(cause),
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
