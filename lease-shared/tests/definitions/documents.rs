//! Both document stores keep what they are given, whatever tenants and projects are called.

use lease_shared::definition::{ConfigDocuments, DirectoryDocuments, DocumentAddress};

use crate::support::{TestDatabase, at, system, unbundled, wait};

fn address(tenant: &str, project: &str, path: &str) -> DocumentAddress {
    DocumentAddress::new(tenant, project, path).unwrap()
}

async fn keeps_documents_apart(documents: &ConfigDocuments) {
    let long = "x".repeat(128);
    let names = [
        "|",
        "/",
        "%",
        "*",
        ".",
        "..",
        "...",
        "..data",
        ".git",
        "$ttlSeconds",
        "__proto__",
        "\u{1F600}",
        "a b",
        "a.b",
        "a%2Fb",
        "a/b",
        "_vance",
        "_tenant",
        "\"",
        "'",
        "\\",
        long.as_str(),
    ];
    let mut addresses = Vec::new();
    for tenant in names {
        for project in ["thesis", tenant] {
            addresses.push(address(tenant, project, "_vance/config/lease/tex.yaml"));
            addresses.push(address(tenant, project, ".hidden/$x|y"));
        }
    }
    for (i, address) in addresses.iter().enumerate() {
        assert_eq!(documents.get(address).await.unwrap(), None, "{address}");
        documents.put(address, "first").await.unwrap();
        documents
            .put(address, &format!("$text {i}\n"))
            .await
            .unwrap();
    }
    let texts = documents.get_all(&addresses).await.unwrap();
    for (i, (address, text)) in addresses.iter().zip(texts).enumerate() {
        assert_eq!(text, Some(format!("$text {i}\n")), "{address}");
    }

    let mut sorted = addresses.clone();
    sorted.sort();
    assert_eq!(documents.list(None, None).await.unwrap(), sorted);
    sorted.retain(|address| address.project() == "thesis");
    assert_eq!(documents.list(None, Some("thesis")).await.unwrap(), sorted);
    for tenant in names {
        let of_tenant = documents.list(Some(tenant), Some("thesis")).await.unwrap();
        assert_eq!(of_tenant.len(), 2, "{tenant}");
        assert!(of_tenant.iter().all(|address| address.tenant() == tenant));
    }

    for address in &addresses {
        assert!(documents.remove(address).await.unwrap(), "{address}");
        assert!(!documents.remove(address).await.unwrap(), "{address}");
    }
    assert_eq!(documents.list(None, None).await.unwrap(), []);
}

#[tokio::test]
async fn a_directory_keeps_documents_apart() {
    let root = tempfile::tempdir().unwrap();
    let documents = ConfigDocuments::Directory(DirectoryDocuments::new(root.path()));
    keeps_documents_apart(&documents).await;
}

#[tokio::test]
async fn mongodb_keeps_documents_apart() {
    let mongo = TestDatabase::new().await;
    keeps_documents_apart(&mongo.documents()).await;
}

#[tokio::test]
async fn mongodb_is_asked_once_and_on_the_primary() {
    let mongo = TestDatabase::new().await;
    let elsewhere = mongo.elsewhere().await;
    elsewhere.documents.put(&system(), &wait(1)).await.unwrap();
    let written = elsewhere.sent.take().pop().unwrap();
    let concern = written.get_document("writeConcern").unwrap();
    assert_eq!(concern.get_str("w").unwrap(), "majority");
    assert!(concern.get_bool("j").unwrap());
    assert_eq!(concern.get("wtimeout").unwrap().to_string(), "4000");

    let resolver = unbundled(elsewhere.documents.clone());
    crate::support::until(&resolver, Some(1)).await;
    crate::support::until(&resolver, Some(1)).await;
    let [find] = &elsewhere.sent.take()[..] else {
        panic!("one command for all layers, none for the cached definition")
    };
    assert_eq!(find.get_str("find").unwrap(), "documents");
    assert_eq!(
        find.get_document("readConcern")
            .unwrap()
            .get_str("level")
            .unwrap(),
        "majority"
    );
    assert_eq!(find.get("$readPreference"), None, "primary");
}

#[tokio::test]
async fn mongodb_stores_the_promised_shape() {
    use mongodb::bson::{Bson, Document};

    let mongo = TestDatabase::new().await;
    mongo
        .documents()
        .put(&at("acme", "thesis"), "text")
        .await
        .unwrap();
    let collection = mongo.database().collection::<Document>("documents");
    let stored = collection.find_one(Document::new()).await.unwrap().unwrap();
    let keys: Vec<_> = stored
        .get_document("_id")
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(keys, ["tenant", "project", "path"]);
    assert_eq!(stored.get_str("content").unwrap(), "text");
    assert!(matches!(stored.get("updatedAt"), Some(Bson::DateTime(_))));
}

#[tokio::test]
async fn a_stored_document_without_text_is_an_error() {
    use mongodb::bson::{Document, doc};

    let mongo = TestDatabase::new().await;
    let collection = mongo.database().collection::<Document>("documents");
    let address = at("acme", "thesis");
    let id = doc! { "tenant": "acme", "project": "thesis", "path": address.path() };
    for content in [doc! {}, doc! { "content": 7 }, doc! { "content": null }] {
        let mut document = doc! { "_id": id.clone() };
        document.extend(content);
        collection.insert_one(&document).await.unwrap();
        let error = mongo
            .documents()
            .get(&address)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("acme") && error.contains("no text in `content`"),
            "{error}"
        );
        collection
            .delete_one(doc! { "_id": id.clone() })
            .await
            .unwrap();
    }
}
