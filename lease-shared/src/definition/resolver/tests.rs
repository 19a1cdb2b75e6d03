//! The race between a load and an invalidation, stepped through. What the resolver does as a whole is tested in
//! `tests/definitions`.

use super::*;
use crate::definition::DirectoryDocuments;

struct Race {
    _root: tempfile::TempDir,
    resolver: DefinitionResolver,
    tenancy: Tenancy,
    name: LeaseName,
}

impl Race {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let documents = ConfigDocuments::Directory(DirectoryDocuments::new(root.path()));
        Self {
            _root: root,
            resolver: DefinitionResolver::with_bundled(documents, |_| None),
            tenancy: Tenancy::new("acme", "thesis", "ada").unwrap(),
            name: LeaseName::new("tex").unwrap(),
        }
    }

    fn address(&self, tenant: &str, project: &str) -> DocumentAddress {
        DocumentAddress::lease(tenant, project, &self.name).unwrap()
    }

    /// A load reads the old document; the new one is written and `between` happens; only then does the load end.
    /// Returns what the load gave, and what is found afterwards.
    async fn run(&self, between: impl FnOnce(&DefinitionResolver)) -> (u32, u32) {
        let Self {
            resolver,
            tenancy,
            name,
            ..
        } = self;
        let written = self.address("_vance", "_tenant");
        resolver
            .put(&written, "name: tex\nwaitMs: 1")
            .await
            .unwrap();
        let load = resolver.begin_load();
        let merged = resolver.load(tenancy, name).await.unwrap();
        let documents = resolver.documents();
        documents
            .put(&written, "name: tex\nwaitMs: 2")
            .await
            .unwrap();
        between(resolver);
        let key = ("acme".to_owned(), "thesis".to_owned(), name.clone());
        let loaded = resolver.end_load(load, key, merged);
        let found = resolver.resolve(tenancy, name).await.unwrap();
        (loaded.definition.wait.get(), found.wait.get())
    }
}

#[tokio::test]
async fn a_load_fills_the_cache() {
    assert_eq!(Race::new().run(|_| ()).await, (1, 1));
}

#[tokio::test]
async fn a_load_overtaken_by_an_invalidation_does_not() {
    let race = Race::new();
    let system = race.address("_vance", "_tenant");
    let tenant = race.address("acme", "_tenant");
    let project = race.address("acme", "thesis");
    for address in [system, tenant, project] {
        let found = race.run(|resolver| resolver.invalidate(&address)).await;
        assert_eq!(found, (1, 2), "{address}");
    }
    assert_eq!(race.run(DefinitionResolver::invalidate_all).await, (1, 2));
}

#[tokio::test]
async fn a_dropped_write_invalidates_too() {
    let race = Race::new();
    let system = race.address("_vance", "_tenant");
    let found = race
        .run(|resolver| drop(resolver.put(&system, "never polled")))
        .await;
    assert_eq!(found, (1, 1), "nothing was sent");
    let found = race
        .run(|resolver| {
            let mut write = Box::pin(resolver.put(&system, "name: tex\nwaitMs: 2"));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(write.as_mut().poll(&mut context).is_pending());
        })
        .await;
    assert_eq!(found, (1, 2));
}
