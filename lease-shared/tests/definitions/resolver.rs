//! What a resolver finds, what it keeps, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lease_shared::definition::{
    ConfigDocuments, DefinitionResolver, DirectoryDocuments, DocumentStoreError, Layer,
    MongoDocuments, ResolveError, Source,
};
use lease_shared::{LeaseName, Level, Tenancy};
use mongodb::bson::doc;
use tempfile::TempDir;

use crate::support::{FAIL_POINT, TestDatabase, ada, at, resolved, system, tex, unbundled, wait};

fn directory() -> (TempDir, ConfigDocuments) {
    let root = tempfile::tempdir().unwrap();
    let documents = ConfigDocuments::Directory(DirectoryDocuments::new(root.path()));
    (root, documents)
}

#[tokio::test]
async fn layers_come_together() {
    let (_root, documents) = directory();
    let resolver = DefinitionResolver::with_bundled(documents.clone(), |path| {
        (path == "_vance/config/lease/tex.yaml")
            .then_some("name: tex\nlevels: {global: 6, user: 2}\nttlSeconds: 60")
    });
    documents
        .put(
            &system(),
            "name: tex\nresource: tex2pdf\nlevels: {global: 4}",
        )
        .await
        .unwrap();
    documents
        .put(
            &at("acme", "_tenant"),
            "name: tex\nresource: own\nlevels: {global: 99, tenant: 3}",
        )
        .await
        .unwrap();
    documents
        .put(
            &at("acme", "thesis"),
            "name: tex\nlevels: {tenant: 99, project: 1}",
        )
        .await
        .unwrap();
    let merged = resolver.explain(&ada(), &tex()).await.unwrap();
    let caps = Level::NARROW_TO_WIDE.map(|level| merged.levels.at(level).unwrap().clone());
    assert_eq!(caps.each_ref().map(|cap| cap.value.get()), [2, 1, 3, 4]);
    assert_eq!(
        caps.map(|cap| cap.source),
        [Layer::Bundled, Layer::Project, Layer::Tenant, Layer::System].map(Source::Layer)
    );
    let definition = resolver.resolve(&ada(), &tex()).await.unwrap();
    assert_eq!(*definition, merged.definition());
    assert_eq!(definition.resource_at(Level::Tenant).as_str(), "own");
    assert_eq!(definition.resource_at(Level::Global).as_str(), "tex2pdf");

    let other = Tenancy::new("other", "thesis", "ada").unwrap();
    let definition = resolver.resolve(&other, &tex()).await.unwrap();
    assert_eq!(definition.resource.as_str(), "tex2pdf");
    assert_eq!(definition.cap(Level::Project), None);
}

#[tokio::test]
async fn what_is_bundled_is_valid() {
    let (_root, documents) = directory();
    let definition = DefinitionResolver::new(documents)
        .resolve(&ada(), &tex())
        .await
        .unwrap();
    assert_eq!(definition.global_resource.as_str(), "tex2pdf");
    assert!(definition.cap(Level::Global).is_some());
}

#[tokio::test]
async fn a_name_that_no_layer_defines_is_undefined() {
    let (_root, documents) = directory();
    let resolver = unbundled(documents);
    let name = LeaseName::new("txe").unwrap();
    let error = resolver.resolve(&ada(), &name).await.unwrap_err();
    assert!(matches!(&error, ResolveError::Undefined { .. }), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("`txe`") && message.contains("acme/thesis"),
        "{message}"
    );
}

#[tokio::test]
async fn a_broken_layer_fails_all_and_nothing_is_kept() {
    let (_root, documents) = directory();
    let resolver = unbundled(documents.clone());
    documents.put(&system(), &wait(1)).await.unwrap();
    for address in [at("acme", "thesis"), at("acme", "_tenant"), system()] {
        let before = documents.get(&address).await.unwrap();
        documents
            .put(&address, "name: tex\nlevels: {user: six}")
            .await
            .unwrap();
        let error = resolver.resolve(&ada(), &tex()).await.unwrap_err();
        let ResolveError::Broken(error) = error else {
            panic!("{error}")
        };
        assert_eq!((&*error.address, error.line), (&address, Some(2)));
        assert_eq!(error.value.as_deref(), Some("six"));
        match before {
            Some(text) => documents.put(&address, &text).await.unwrap(),
            None => assert!(documents.remove(&address).await.unwrap()),
        }
        // No invalidation, and yet the next one finds what is there now.
        assert_eq!(resolved(&resolver).await, Some(1));
        resolver.invalidate_all();
    }
}

#[tokio::test]
async fn an_invalidation_reaches_as_far_as_its_layer() {
    let (_root, documents) = directory();
    let resolver = unbundled(documents.clone());
    let other = LeaseName::new("other").unwrap();
    let scopes = [("acme", "thesis"), ("acme", "paper"), ("emca", "thesis")];
    let tenancy = |(tenant, project)| Tenancy::new(tenant, project, "ada").unwrap();
    let find = async |scope, name: &LeaseName| {
        let definition = resolver.resolve(&tenancy(scope), name).await.unwrap();
        definition.wait.get()
    };
    let other_system =
        lease_shared::definition::DocumentAddress::lease("_vance", "_tenant", &other).unwrap();
    let mut n = 0;
    for (address, reached) in [
        (system(), [true, true, true]),
        (at("acme", "_tenant"), [true, true, false]),
        (at("acme", "thesis"), [true, false, false]),
        (at("_vance", "thesis"), [false, false, false]),
        (at("acme", "_vance"), [false, false, false]),
        (at("acme", "new"), [false, false, false]),
    ] {
        resolver.invalidate_all();
        n += 2;
        documents.put(&system(), &wait(n)).await.unwrap();
        documents
            .put(&other_system, &wait(n).replace("tex", "other"))
            .await
            .unwrap();
        for scope in scopes {
            assert_eq!(find(scope, &tex()).await, n);
            assert_eq!(find(scope, &other).await, n);
        }
        // Behind the resolver's back.
        documents.put(&system(), &wait(n + 1)).await.unwrap();
        documents
            .put(&other_system, &wait(n + 1).replace("tex", "other"))
            .await
            .unwrap();
        resolver.invalidate(&address);
        for (scope, reached) in scopes.into_iter().zip(reached) {
            assert_eq!(
                find(scope, &tex()).await,
                n + u32::from(reached),
                "{address}"
            );
            assert_eq!(find(scope, &other).await, n, "{address}");
        }
    }
}

#[tokio::test]
async fn a_write_through_the_resolver_is_felt_at_once() {
    let (_root, documents) = directory();
    let resolver = unbundled(documents);
    for (n, address) in [system(), at("acme", "_tenant"), at("acme", "thesis")]
        .iter()
        .enumerate()
    {
        let n = u32::try_from(n).unwrap();
        resolver.put(address, &wait(n)).await.unwrap();
        assert_eq!(resolved(&resolver).await, Some(n));
    }
    assert!(resolver.remove(&at("acme", "thesis")).await.unwrap());
    assert_eq!(resolved(&resolver).await, Some(1));
    assert!(resolver.remove(&system()).await.unwrap());
    assert!(resolver.remove(&at("acme", "_tenant")).await.unwrap());
    assert_eq!(resolved(&resolver).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_load_brings_back_what_a_write_replaced() {
    let (_root, documents) = directory();
    let resolver = unbundled(documents);
    resolver.put(&system(), &wait(0)).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (resolver, done) = (resolver.clone(), done.clone());
            tokio::spawn(async move {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let found = resolved(&resolver).await.unwrap();
                    last = found.max(last);
                    tokio::task::yield_now().await;
                }
                last
            })
        })
        .collect();
    for n in 1..150 {
        resolver.put(&system(), &wait(n)).await.unwrap();
        for _ in 0..3 {
            assert_eq!(resolved(&resolver).await, Some(n));
        }
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_older_than_a_minute() {
    let (_root, documents) = directory();
    let resolver = unbundled(documents.clone());
    documents.put(&system(), &wait(1)).await.unwrap();
    assert_eq!(resolved(&resolver).await, Some(1));
    documents.put(&system(), &wait(2)).await.unwrap();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(resolved(&resolver).await, Some(1));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(resolved(&resolver).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_unavailable_in_time() {
    // Accepts connections and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("mongodb://{}", silent.local_addr().unwrap());
    let client = mongodb::Client::with_uri_str(uri).await.unwrap();
    let documents = ConfigDocuments::Mongo(MongoDocuments::new(&client.database("none")));
    let begun = tokio::time::Instant::now();
    let error = unbundled(documents)
        .resolve(&ada(), &tex())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            ResolveError::Unavailable(DocumentStoreError::Timeout(_))
        ),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_layer_that_cannot_be_read_fails_all_and_nothing_is_kept() {
    let _fail_point = FAIL_POINT.lock().await;
    let mongo = TestDatabase::new().await;
    let elsewhere = mongo.elsewhere().await;
    let resolver = unbundled(elsewhere.documents.clone());
    resolver.put(&system(), &wait(1)).await.unwrap();
    let refuse = doc! { "failCommands": ["find"], "errorCode": 13 };
    mongo.fail(&elsewhere, doc! { "times": 1 }, refuse).await;
    let error = resolver.resolve(&ada(), &tex()).await.unwrap_err();
    assert!(
        matches!(
            error,
            ResolveError::Unavailable(DocumentStoreError::Mongo { .. })
        ),
        "{error}"
    );
    assert_eq!(resolved(&resolver).await, Some(1));
}

#[tokio::test]
async fn a_write_that_is_perhaps_done_invalidates_too() {
    let _fail_point = FAIL_POINT.lock().await;
    let mongo = TestDatabase::new().await;
    let elsewhere = mongo.elsewhere().await;
    let resolver = unbundled(elsewhere.documents.clone());
    resolver.put(&system(), &wait(1)).await.unwrap();
    assert_eq!(resolved(&resolver).await, Some(1));
    let unsure = doc! {
        "failCommands": ["update"],
        "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
    };
    mongo.fail(&elsewhere, doc! { "times": 1 }, unsure).await;
    let error = resolver.put(&system(), &wait(2)).await.unwrap_err();
    assert!(error.to_string().contains("_vance/_tenant"), "{error}");
    // Not waited for, it is seen as soon as a majority has it.
    while elsewhere.documents.get(&system()).await.unwrap() != Some(wait(2)) {}
    assert_eq!(resolved(&resolver).await, Some(2));
}
