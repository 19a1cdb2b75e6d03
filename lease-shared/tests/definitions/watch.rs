//! Changes by other processes reach a resolver through its watch, long before its definitions are old.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use lease_shared::definition::{
    ConfigDocuments, DefinitionResolver, DefinitionWatch, DirectoryDocuments,
};
use mongodb::bson::doc;

use crate::support::{Elsewhere, FAIL_POINT, TestDatabase, at, system, unbundled, until, wait};

async fn watched(documents: ConfigDocuments) -> (DefinitionResolver, DefinitionWatch) {
    let resolver = unbundled(documents);
    let mut watch = resolver.watch();
    watch.established().await;
    (resolver, watch)
}

async fn follows(resolver: &DefinitionResolver, elsewhere: &Elsewhere) {
    let there = unbundled(elsewhere.documents.clone());
    for address in [system(), at("acme", "_tenant"), at("acme", "thesis")] {
        for n in 1..4 {
            there.put(&address, &wait(n)).await.unwrap();
            until(resolver, Some(n)).await;
        }
    }
    for address in [at("acme", "thesis"), at("acme", "_tenant"), system()] {
        there.put(&address, &wait(9)).await.unwrap();
        until(resolver, Some(9)).await;
        assert!(there.remove(&address).await.unwrap());
        let below = (address != system()).then_some(3);
        until(resolver, below).await;
    }
}

#[tokio::test]
async fn changes_in_mongodb_reach_another_client() {
    let mongo = TestDatabase::new().await;
    let elsewhere = mongo.elsewhere().await;
    let (resolver, _watch) = watched(mongo.documents()).await;
    follows(&resolver, &elsewhere).await;
}

#[tokio::test]
async fn a_change_drops_only_what_it_bears_on() {
    let mongo = TestDatabase::new().await;
    let elsewhere = mongo.elsewhere().await;
    let (resolver, _watch) = watched(elsewhere.documents.clone()).await;
    let there = mongo.documents();
    there.put(&system(), &wait(1)).await.unwrap();
    until(&resolver, Some(1)).await;
    // The event of the first write may still be under way; that of the last tenant's write comes after it.
    let marker = lease_shared::Tenancy::new("marker", "p", "u").unwrap();
    let tex = crate::support::tex();
    let settled = async |n: u32| {
        there.put(&at("marker", "_tenant"), &wait(n)).await.unwrap();
        let heard = async || Ok(resolver.resolve(&marker, &tex).await?.wait.get() == n);
        let within = std::time::Duration::from_secs(20);
        test_mongo::eventually("the marker is heard of", within, heard)
            .await
            .unwrap();
    };
    settled(100).await;
    until(&resolver, Some(1)).await;
    let finds = || {
        let about_acme = |command: &mongodb::bson::Document| {
            command.get_str("find").is_ok() && format!("{command}").contains("acme")
        };
        elsewhere
            .sent
            .take()
            .iter()
            .filter(|command| about_acme(command))
            .count()
    };
    finds();
    there.put(&at("emca", "thesis"), &wait(7)).await.unwrap();
    settled(101).await;
    until(&resolver, Some(1)).await;
    assert_eq!(finds(), 0, "still cached");
}

#[tokio::test]
async fn a_lost_change_stream_is_opened_again() {
    let _fail_point = FAIL_POINT.lock().await;
    let mongo = TestDatabase::new().await;
    let writer = mongo.elsewhere().await;
    let reader = mongo.elsewhere().await;
    let (resolver, _watch) = watched(reader.documents.clone()).await;
    writer.documents.put(&system(), &wait(1)).await.unwrap();
    until(&resolver, Some(1)).await;

    // No code that the driver would resume after by itself.
    let refuse = doc! { "failCommands": ["getMore"], "errorCode": 13 };
    mongo.fail(&reader, doc! { "times": 1 }, refuse).await;
    follows(&resolver, &writer).await;

    // One cut: the driver's own streams resume. Two: they resume from the wrong point. Three: they give up.
    for times in [1, 2, 3] {
        let cut = doc! { "failCommands": ["getMore", "aggregate"], "closeConnection": true };
        mongo.fail(&reader, doc! { "times": times }, cut).await;
        follows(&resolver, &writer).await;
    }

    writer.documents.put(&system(), &wait(5)).await.unwrap();
    until(&resolver, Some(5)).await;
    mongo
        .database()
        .collection::<mongodb::bson::Document>("documents")
        .drop()
        .await
        .unwrap();
    until(&resolver, None).await;
    follows(&resolver, &writer).await;
}

#[tokio::test]
async fn a_standalone_server_is_lived_with() {
    let _fail_point = FAIL_POINT.lock().await;
    let mongo = TestDatabase::new().await;
    let reader = mongo.elsewhere().await;
    // What a standalone server says to a change stream.
    let refuse = doc! { "failCommands": ["aggregate"], "errorCode": 40573 };
    mongo.fail(&reader, doc! { "times": 1000 }, refuse).await;
    let (resolver, mut watch) = watched(reader.documents.clone()).await;
    reader.documents.put(&system(), &wait(1)).await.unwrap();
    until(&resolver, Some(1)).await;
    let still = tokio::time::timeout(std::time::Duration::from_millis(1), watch.ended()).await;
    assert!(still.is_err());
    let streams = |command: &&mongodb::bson::Document| command.contains_key("aggregate");
    assert_eq!(
        reader.sent.take().iter().filter(streams).count(),
        1,
        "asked once"
    );
}

fn directory(root: &Path) -> ConfigDocuments {
    ConfigDocuments::Directory(DirectoryDocuments::new(root))
}

#[tokio::test]
async fn changes_in_a_directory_are_seen() {
    let root = tempfile::tempdir().unwrap();
    let (resolver, _watch) = watched(directory(root.path())).await;
    let folder = root.path().join("acme/thesis/_vance/config/lease");
    let file = folder.join("tex.yaml");
    until(&resolver, None).await;

    // New folders, with the file in them at once.
    fs::create_dir_all(&folder).unwrap();
    fs::write(&file, wait(1)).unwrap();
    until(&resolver, Some(1)).await;
    for round in 0..3 {
        // In place; by an atomic rename; away and back.
        fs::write(&file, wait(10 + round)).unwrap();
        until(&resolver, Some(10 + round)).await;
        fs::write(folder.join("other"), wait(20 + round)).unwrap();
        fs::rename(folder.join("other"), &file).unwrap();
        until(&resolver, Some(20 + round)).await;
        fs::remove_file(&file).unwrap();
        until(&resolver, None).await;
        fs::write(&file, wait(30 + round)).unwrap();
        until(&resolver, Some(30 + round)).await;
    }
    // A whole tree away and another in its place.
    fs::remove_dir_all(root.path().join("acme")).unwrap();
    until(&resolver, None).await;
    let tree = tempfile::tempdir().unwrap();
    let new = tree.path().join("acme/thesis/_vance/config/lease");
    fs::create_dir_all(&new).unwrap();
    fs::write(new.join("tex.yaml"), wait(4)).unwrap();
    fs::rename(tree.path().join("acme"), root.path().join("acme")).unwrap();
    until(&resolver, Some(4)).await;
    fs::write(&file, wait(5)).unwrap();
    until(&resolver, Some(5)).await;
}

#[tokio::test]
async fn a_config_maps_swaps_are_seen() {
    let root = tempfile::tempdir().unwrap();
    let swap = |n: u32| {
        let version = root.path().join(format!("..v{n}"));
        let folder = version.join("acme/thesis/_vance/config/lease");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("tex.yaml"), wait(n)).unwrap();
        symlink(format!("..v{n}"), root.path().join("..data_tmp")).unwrap();
        fs::rename(root.path().join("..data_tmp"), root.path().join("..data")).unwrap();
        let _ = fs::remove_dir_all(root.path().join(format!("..v{}", n.wrapping_sub(1))));
    };
    swap(0);
    symlink("..data/acme", root.path().join("acme")).unwrap();
    let (resolver, _watch) = watched(directory(root.path())).await;
    until(&resolver, Some(0)).await;
    for n in 1..4 {
        swap(n);
        until(&resolver, Some(n)).await;
    }
}

#[tokio::test]
async fn a_root_that_goes_and_comes_back_is_followed() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("documents");
    let file = root.join("acme/thesis/_vance/config/lease/tex.yaml");
    let make = |n| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, wait(n)).unwrap();
    };
    make(1);
    let (resolver, _watch) = watched(directory(&root)).await;
    until(&resolver, Some(1)).await;
    fs::remove_dir_all(&root).unwrap();
    until(&resolver, None).await;
    make(2);
    until(&resolver, Some(2)).await;
    fs::write(&file, wait(3)).unwrap();
    until(&resolver, Some(3)).await;
    fs::rename(&root, parent.path().join("aside")).unwrap();
    until(&resolver, None).await;
    make(4);
    until(&resolver, Some(4)).await;
}
