//! One server: paused, killed, restarted; one database per test.

use std::time::Duration;

use anyhow::Result;
use mongodb::bson::{Document, doc};
use mongodb::options::{TransactionOptions, WriteConcern};
use test_mongo::{Mongod, ReplicaSet, TestMongo, admin_command};
use tokio::time::timeout;

#[tokio::test]
async fn paused_server_answers_nothing_until_resumed() -> Result<()> {
    let server = Mongod::start().await?;
    let mongo = TestMongo::at(&server.uri()).await?;
    let ping = || mongo.database().run_command(doc! { "ping": 1 });
    ping().await?;

    server.pause()?;
    assert!(
        timeout(Duration::from_millis(500), ping().into_future())
            .await
            .is_err()
    );

    server.resume()?;
    ping().await?;
    Ok(())
}

#[tokio::test]
async fn acknowledged_data_survives_kill_and_stop() -> Result<()> {
    let mut server = Mongod::start().await?;
    let (uri, port, pid) = (server.uri(), server.port(), server.pid());
    let mongo = TestMongo::at(&uri).await?;
    let things = mongo.database().collection::<Document>("things");
    let majority = WriteConcern::majority();
    things
        .insert_one(doc! { "_id": 1 })
        .write_concern(majority)
        .await?;

    server.kill()?;
    assert_eq!(server.pid(), None);
    assert!(server.pause().is_err());
    server.restart().await?;
    assert_eq!((server.uri(), server.port()), (uri, port));
    assert_ne!(server.pid(), pid);
    assert_eq!(things.count_documents(doc! {}).await?, 1);

    server.stop().await?;
    server.restart().await?;
    assert_eq!(things.count_documents(doc! {}).await?, 1);
    Ok(())
}

#[tokio::test]
async fn transactions_work_on_a_single_node() -> Result<()> {
    let mongo = TestMongo::new().await?;
    let things = mongo.database().collection::<Document>("things");
    let mut session = mongo.client().start_session().await?;
    session
        .start_transaction()
        .with_options(TransactionOptions::default())
        .await?;
    things
        .insert_one(doc! { "_id": 1 })
        .session(&mut session)
        .await?;
    session.abort_transaction().await?;
    assert_eq!(things.count_documents(doc! {}).await?, 0);
    Ok(())
}

#[tokio::test]
async fn databases_are_apart_and_dropped_with_their_guard() -> Result<()> {
    let first = TestMongo::new().await?;
    let second = TestMongo::new().await?;
    for mongo in [&first, &second] {
        let things = mongo.database().collection::<Document>("things");
        things.insert_one(doc! { "_id": 1 }).await?;
    }
    let name = first.name().to_owned();
    assert_ne!(name, second.name());
    drop(first);
    let list = admin_command(second.uri(), doc! { "listDatabases": 1, "nameOnly": true }).await?;
    let listed = |name: &str| list.to_string().contains(name);
    assert!(!listed(&name));
    assert!(listed(second.name()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_and_databases_start_side_by_side() -> Result<()> {
    let servers = [tokio::spawn(Mongod::start()), tokio::spawn(Mongod::start())];
    let databases = [
        tokio::spawn(TestMongo::new()),
        tokio::spawn(TestMongo::new()),
    ];
    let set = tokio::spawn(ReplicaSet::start(1));
    let [first, second] = servers;
    assert_ne!(first.await??.port(), second.await??.port());
    for database in databases {
        database.await??;
    }
    assert_eq!(set.await??.primary().await?, 0);
    Ok(())
}
