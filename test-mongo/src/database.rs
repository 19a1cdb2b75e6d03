//! A database per test, on a server that the tests share.

use std::env;

use anyhow::{Context as _, Result};
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::server::Mongod;
use crate::wait::finish;

/// Never dropped, as statics are not; the server ends with the process all the same.
static SHARED: OnceCell<Mongod> = OnceCell::const_new();

/// A database of its own with a client for it; dropped on the server with this value.
///
/// `Drop` blocks for a moment; what goes wrong there is printed on stderr.
pub struct TestMongo {
    uri: String,
    client: Client,
    database: Database,
}

impl TestMongo {
    /// A fresh database on the server that `MONGODB_URI` names, else on one started for this process.
    pub async fn new() -> Result<Self> {
        match env::var("MONGODB_URI") {
            Ok(uri) if !uri.is_empty() => Self::at(&uri).await.context("MONGODB_URI"),
            _ => Self::at(&SHARED.get_or_try_init(Mongod::start).await?.uri()).await,
        }
    }

    /// A fresh database on the server at `uri`, for tests with a server or a replica set of their own.
    pub async fn at(uri: &str) -> Result<Self> {
        let name = format!("test_{}", Uuid::new_v4().simple());
        let client = client(uri, &name, |_| ()).await?;
        Ok(Self {
            uri: uri.to_owned(),
            database: client.database(&name),
            client,
        })
    }

    /// The server's connection string, without the database's name.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The database's name, which is also the `appName` of this value's clients.
    pub fn name(&self) -> &str {
        self.database.name()
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The client behind [`database`](Self::database).
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Another client for the same server, with options changed by `change`, for example one that counts
    /// its commands.
    pub async fn client_with(&self, change: impl FnOnce(&mut ClientOptions)) -> Result<Client> {
        client(&self.uri, self.name(), change).await
    }
}

impl Drop for TestMongo {
    fn drop(&mut self) {
        let (uri, name) = (self.uri.clone(), self.name().to_owned());
        let what = format!("drop database {name}");
        finish(&what, async move {
            let client = client(&uri, "test-mongo", |_| ()).await?;
            client.database(&name).drop().await?;
            Ok(())
        });
    }
}

async fn client(
    uri: &str,
    app_name: &str,
    change: impl FnOnce(&mut ClientOptions),
) -> Result<Client> {
    let mut options = ClientOptions::parse(uri)
        .await
        .context("parse the MongoDB URI")?;
    options.app_name = Some(app_name.to_owned());
    change(&mut options);
    Client::with_options(options).context("make a client")
}
