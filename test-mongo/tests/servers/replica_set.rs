//! Three nodes: a new primary after the old one's death or resignation, and a secondary that lags.

use std::time::Duration;

use anyhow::{Context as _, Result};
use mongodb::bson::{Document, doc};
use mongodb::options::{ReadConcern, WriteConcern};
use mongodb::{Client, Collection};
use test_mongo::{ReplicaSet, TestMongo, direct_client, eventually};

#[tokio::test]
async fn killed_primary_is_replaced_and_comes_back() -> Result<()> {
    let mut set = ReplicaSet::start(3).await?;
    let mongo = TestMongo::at(&set.uri()).await?;
    let things = mongo.database().collection::<Document>("things");
    insert(&things, 1).await?;

    let old = set.primary().await?;
    set.kill(old)?;
    let new = set.primary().await?;
    assert_ne!(new, old);
    insert(&things, 2).await?;
    assert_eq!(things.count_documents(doc! {}).await?, 2);

    set.restart(old).await?;
    let client = direct_client(set.nodes()[old].port()).await?;
    let copy = client.database(mongo.name()).collection("things");
    eventually("the old primary's copy", LONG, async || {
        Ok(count(&copy).await? == 2)
    })
    .await
}

#[tokio::test]
async fn stepped_down_primary_is_followed_by_another() -> Result<()> {
    let set = ReplicaSet::start(3).await?;
    let old = set.primary().await?;
    let new = set.step_down().await?;
    assert_ne!(new, old);
    assert_eq!(set.primary().await?, new);
    Ok(())
}

#[tokio::test]
async fn lagging_secondary_misses_writes_until_its_guard_goes() -> Result<()> {
    let set = ReplicaSet::start(3).await?;
    let mongo = TestMongo::at(&set.uri()).await?;
    let things = mongo.database().collection::<Document>("things");
    let secondaries = set.secondaries().await;
    let (late, prompt) = (secondaries[0], secondaries[1]);
    let late_client = direct_client(set.nodes()[late].port()).await?;
    let prompt_client = direct_client(set.nodes()[prompt].port()).await?;
    let copy = |client: &Client| {
        client
            .database(mongo.name())
            .collection::<Document>("things")
    };

    insert(&things, 1).await?;
    eventually("both copies", LONG, async || {
        Ok(count(&copy(&late_client)).await? == 1 && count(&copy(&prompt_client)).await? == 1)
    })
    .await?;

    let lag = set.lag(late).await?;
    insert(&things, 2).await?;
    eventually("the prompt copy", LONG, async || {
        Ok(count(&copy(&prompt_client)).await? == 2)
    })
    .await?;
    assert_eq!(count(&copy(&late_client)).await?, 1);

    lag.off().await?;
    eventually("the late copy", LONG, async || {
        Ok(count(&copy(&late_client)).await? == 2)
    })
    .await
}

#[tokio::test]
async fn paused_primary_is_replaced() -> Result<()> {
    let set = ReplicaSet::start(3).await?;
    let old = set.primary().await?;
    set.pause(old)?;
    let new = set.primary().await?;
    assert_ne!(new, old);
    set.resume(old)?;
    eventually("two secondaries", LONG, async || {
        Ok(set.secondaries().await.contains(&old))
    })
    .await
}

const LONG: Duration = Duration::from_secs(60);

/// By a majority, as the writes that matter are.
async fn insert(things: &Collection<Document>, id: i32) -> Result<()> {
    things
        .insert_one(doc! { "_id": id })
        .write_concern(WriteConcern::majority())
        .await
        .context("insert")?;
    Ok(())
}

async fn count(things: &Collection<Document>) -> Result<u64> {
    Ok(things
        .count_documents(doc! {})
        .read_concern(ReadConcern::local())
        .await?)
}
