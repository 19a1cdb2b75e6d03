//! Fail points fail what they say, for whom they say, and go off with their guard.

use std::time::Duration;

use anyhow::Result;
use mongodb::bson::{Document, doc};
use mongodb::error::ErrorKind;
use test_mongo::{FailCommand, FailPoint, Mongod, TestMongo, direct_client};
use tokio::time::timeout;

#[tokio::test]
async fn fail_command_goes_off_with_its_guard() -> Result<()> {
    let server = Mongod::start().await?;
    let mongo = TestMongo::at(&server.uri()).await?;
    let count = || mongo.database().run_command(doc! { "count": "things" });

    let guard = FailCommand::on(&["count"])
        .error_code(1234)
        .set(&server.uri())
        .await?;
    let error = count().await.expect_err("count fails on demand");
    assert!(
        matches!(&*error.kind, ErrorKind::Command(reply) if reply.code == 1234),
        "{error}"
    );
    guard.off().await?;
    count().await?;

    drop(
        FailCommand::on(&["count"])
            .close_connection()
            .set(&server.uri())
            .await?,
    );
    count().await?;
    Ok(())
}

#[tokio::test]
async fn fail_command_keeps_to_its_client_and_number() -> Result<()> {
    let server = Mongod::start().await?;
    let [concerned, other] = [
        TestMongo::at(&server.uri()).await?,
        TestMongo::at(&server.uri()).await?,
    ];
    async fn count(mongo: &TestMongo) -> mongodb::error::Result<Document> {
        mongo
            .database()
            .run_command(doc! { "count": "things" })
            .await
    }

    let fail = FailCommand::on(&["count"])
        .app_name(concerned.name())
        .close_connection()
        .times(1);
    let guard = fail.set(&server.uri()).await?;
    count(&other).await?;
    assert!(count(&concerned).await.is_err());
    count(&concerned).await?;
    guard.off().await
}

#[tokio::test]
async fn blocked_command_is_late() -> Result<()> {
    let server = Mongod::start().await?;
    let mongo = TestMongo::at(&server.uri()).await?;
    let count = || {
        mongo
            .database()
            .run_command(doc! { "count": "things" })
            .into_future()
    };
    let fail = FailCommand::on(&["count"]).block(Duration::from_secs(600));
    let guard = fail.set(&server.uri()).await?;
    assert!(timeout(Duration::from_millis(500), count()).await.is_err());
    // Long before the blocked command's time, others pass.
    guard.off().await?;
    timeout(Duration::from_secs(60), count()).await??;
    Ok(())
}

#[tokio::test]
async fn write_concern_error_comes_with_an_applied_write() -> Result<()> {
    let server = Mongod::start().await?;
    let mongo = TestMongo::at(&server.uri()).await?;
    let things = mongo.database().collection::<Document>("things");
    let error = doc! { "code": 64, "errmsg": "no majority in time" };
    let guard = FailCommand::on(&["insert"])
        .write_concern_error(error)
        .set(&server.uri())
        .await?;
    assert!(things.insert_one(doc! { "_id": 1 }).await.is_err());
    guard.off().await?;
    assert_eq!(things.count_documents(doc! {}).await?, 1);
    Ok(())
}

#[tokio::test]
async fn hanging_write_is_applied_but_unanswered() -> Result<()> {
    let server = Mongod::start().await?;
    let mongo = TestMongo::at(&server.uri()).await?;
    let things = mongo.database().collection::<Document>("things");
    let guard = FailPoint::hang_before_write_concern(&server.uri()).await?;
    let insert = things.insert_one(doc! { "_id": 1 }).into_future();
    assert!(timeout(Duration::from_secs(1), insert).await.is_err());
    let direct = direct_client(server.port()).await?;
    let copy = direct
        .database(mongo.name())
        .collection::<Document>("things");
    assert_eq!(copy.count_documents(doc! {}).await?, 1);
    guard.off().await?;
    things.insert_one(doc! { "_id": 2 }).await?;
    Ok(())
}
