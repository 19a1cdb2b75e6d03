//! A real MongoDB for tests and demos: found or fetched, started on loopback, ended with its parent.
//!
//! - [`TestMongo`]: a database of one's own on a server that the tests share. Most tests need only this.
//! - [`Mongod`]: a server of one's own, to pause, kill and restart.
//! - [`ReplicaSet`]: several servers, for failover and lagging secondaries.
//! - [`FailPoint`], [`FailCommand`]: the server's own failures, switched off by a guard.
//!
//! ```no_run
//! use mongodb::bson::{Document, doc};
//! use test_mongo::TestMongo;
//!
//! # async fn example() -> anyhow::Result<()> {
//! let mongo = TestMongo::new().await?;
//! let things = mongo.database().collection::<Document>("things");
//! things.insert_one(doc! { "_id": 1 }).await?;
//! # Ok(())
//! # }
//! ```

pub mod binary;
mod command;
mod database;
mod fail_point;
pub mod paths;
mod replica_set;
mod replication;
mod server;
mod wait;

pub use command::{admin_command, direct_client, single_node_uri};
pub use database::TestMongo;
pub use fail_point::{FailCommand, FailPoint};
pub use replica_set::ReplicaSet;
pub use replication::start_replication;
pub use server::{Mongod, free_port, log_tail, server_arguments};
pub use wait::eventually;
