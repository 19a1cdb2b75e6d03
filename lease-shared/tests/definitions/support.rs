//! What these tests share: a database each, and waiting for conditions.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lease_shared::definition::{
    ConfigDocuments, DefinitionResolver, DocumentAddress, MongoDocuments,
};
use lease_shared::{LeaseName, Tenancy};
use mongodb::bson::{Document, doc};
use mongodb::event::EventHandler;
use mongodb::event::command::CommandEvent;
use mongodb::options::{ClientOptions, ReadPreference};
use mongodb::{Client, Database};
use test_mongo::TestMongo;

/// A server has one `failCommand`: held by the test that sets it.
pub(crate) static FAIL_POINT: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A database of its own.
pub(crate) struct TestDatabase(TestMongo);

impl TestDatabase {
    pub(crate) async fn new() -> Self {
        Self(TestMongo::new().await.unwrap())
    }

    pub(crate) fn database(&self) -> &Database {
        self.0.database()
    }

    pub(crate) fn documents(&self) -> ConfigDocuments {
        ConfigDocuments::Mongo(MongoDocuments::new(self.database()))
    }

    /// The same database as another process sees it, and the commands that this client sends.
    pub(crate) async fn elsewhere(&self) -> Elsewhere {
        let sent = Sent::default();
        let app = format!("app-{:016x}", fastrand::u64(..));
        let client = connect(self.0.uri(), &app, Some(&sent)).await;
        Elsewhere {
            documents: ConfigDocuments::Mongo(MongoDocuments::new(&client.database(self.0.name()))),
            app,
            sent,
        }
    }

    /// Makes the server fail commands of one client; `mode` and `data` as the fail point `failCommand` has them.
    pub(crate) async fn fail(&self, elsewhere: &Elsewhere, mode: Document, mut data: Document) {
        data.insert("appName", &elsewhere.app);
        let command = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data };
        let admin = self.0.client().database("admin");
        admin.run_command(command).await.unwrap();
    }
}

pub(crate) struct Elsewhere {
    pub(crate) documents: ConfigDocuments,
    pub(crate) sent: Sent,
    app: String,
}

/// The commands that a client sent, in order.
#[derive(Clone, Default)]
pub(crate) struct Sent(Arc<Mutex<Vec<Document>>>);

impl Sent {
    pub(crate) fn take(&self) -> Vec<Document> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn connect(uri: &str, app: &str, sent: Option<&Sent>) -> Client {
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.app_name = Some(app.to_owned());
    // What the URI could say must not matter.
    options.selection_criteria = Some(ReadPreference::SecondaryPreferred { options: None }.into());
    if let Some(Sent(sent)) = sent.cloned() {
        options.command_event_handler = Some(EventHandler::callback(move |event| {
            if let CommandEvent::Started(started) = event {
                sent.lock().unwrap().push(started.command);
            }
        }));
    }
    Client::with_options(options).unwrap()
}

/// A resolver that knows nothing but stored documents.
pub(crate) fn unbundled(documents: ConfigDocuments) -> DefinitionResolver {
    DefinitionResolver::with_bundled(documents, |_| None)
}

pub(crate) fn tex() -> LeaseName {
    LeaseName::new("tex").unwrap()
}

pub(crate) fn ada() -> Tenancy {
    Tenancy::new("acme", "thesis", "ada").unwrap()
}

/// Where the lease `tex` is defined in a tenant and project.
pub(crate) fn at(tenant: &str, project: &str) -> DocumentAddress {
    DocumentAddress::lease(tenant, project, &tex()).unwrap()
}

pub(crate) fn system() -> DocumentAddress {
    at("_vance", "_tenant")
}

/// A valid document whose `waitMs` tells it from others.
pub(crate) fn wait(millis: u32) -> String {
    format!("name: tex\nwaitMs: {millis}\n")
}

/// The `waitMs` that a resolver now finds for Ada; `None` while there is none.
pub(crate) async fn resolved(resolver: &DefinitionResolver) -> Option<u32> {
    let found = resolver.resolve(&ada(), &tex()).await;
    found.ok().map(|definition| definition.wait.get())
}

/// Waits until the resolver finds `expected`, far less than a definition's age.
pub(crate) async fn until(resolver: &DefinitionResolver, expected: Option<u32>) {
    let begun = Instant::now();
    loop {
        let found = resolved(resolver).await;
        if found == expected {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "found {found:?}, expected {expected:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
