//! Several servers as one replica set, for failover and lag.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use tokio::time::timeout;

use crate::command::{admin_command, direct_client};
use crate::fail_point::FailPoint;
use crate::replication::{self, ELECTION, SET_NAME, hello, members};
use crate::server::Mongod;
use crate::wait::{eventually, wait_for};

/// How long a node may take to say what it is; a paused one never says.
const ANSWER: Duration = Duration::from_millis(1500);

/// A replica set on loopback whose secondaries notice a lost primary within 2 s; it ends with this value.
pub struct ReplicaSet {
    nodes: Vec<Mongod>,
}

impl ReplicaSet {
    /// Starts `count` servers and waits until one is primary and the others have its data.
    pub async fn start(count: usize) -> Result<Self> {
        let nodes = try_join_all((0..count).map(|_| Mongod::launch())).await?;
        let set = Self { nodes };
        let ports: Vec<u16> = set.nodes.iter().map(Mongod::port).collect();
        let first = *ports.first().context("a replica set needs a node")?;
        let mut configuration = members(&ports);
        // Everybody follows the primary itself, so a node that lags holds no other back. While a node hangs, the others
        // may learn from heartbeats alone how far each of them is, so these are frequent.
        let settings = doc! {
            "electionTimeoutMillis": 2000,
            "heartbeatIntervalMillis": 500,
            "chainingAllowed": false,
        };
        configuration.insert("settings", settings);
        replication::initiate(&direct_client(first).await?, configuration).await?;
        for node in 0..count {
            set.wait_until_member(node).await?;
        }
        set.primary().await?;
        Ok(set)
    }

    /// The connection string that names all nodes.
    pub fn uri(&self) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()))
            .collect();
        format!("mongodb://{}/?replicaSet={SET_NAME}", hosts.join(","))
    }

    /// The nodes in the order of their indexes.
    pub fn nodes(&self) -> &[Mongod] {
        &self.nodes
    }

    /// The index of the node that is primary, once there is one.
    pub async fn primary(&self) -> Result<usize> {
        self.primary_but(None).await
    }

    /// The same, once it is another than `old`.
    pub async fn primary_other_than(&self, old: usize) -> Result<usize> {
        self.primary_but(Some(old)).await
    }

    /// The indexes of the nodes that run as secondaries now.
    pub async fn secondaries(&self) -> Vec<usize> {
        self.indexes_where(|answer| says(answer, "secondary")).await
    }

    /// Stops a node in its tracks (SIGSTOP).
    pub fn pause(&self, node: usize) -> Result<()> {
        self.node(node)?.pause()
    }

    /// Lets a paused node go on (SIGCONT).
    pub fn resume(&self, node: usize) -> Result<()> {
        self.node(node)?.resume()
    }

    /// Ends a node as a crash would (SIGKILL). Its data stays.
    pub fn kill(&mut self, node: usize) -> Result<()> {
        self.node_mut(node)?.kill()
    }

    /// Starts a node again on its port and data and waits until it is primary or secondary.
    pub async fn restart(&mut self, node: usize) -> Result<()> {
        self.node_mut(node)?.relaunch().await?;
        self.wait_until_member(node).await
    }

    /// Makes the primary step down, whatever the others' state, and gives the index of the next one.
    pub async fn step_down(&self) -> Result<usize> {
        let old = self.demote(20, 5).await?;
        self.primary_other_than(old).await
    }

    /// The same, but the old primary may soon be elected again: for one change of roles after another.
    pub async fn step_down_briefly(&self) -> Result<usize> {
        self.demote(2, 1).await?;
        self.primary().await
    }

    /// Gives the index of the primary that is one no more.
    async fn demote(&self, seconds: i32, catch_up: i32) -> Result<usize> {
        let old = self.primary().await?;
        let command = doc! {
            "replSetStepDown": seconds,
            "secondaryCatchUpPeriodSecs": catch_up,
            "force": true,
        };
        admin_command(&self.node(old)?.direct_uri(), command).await?;
        Ok(old)
    }

    /// Lets a secondary fall behind: it fetches nothing more from the others until the guard goes.
    pub async fn lag(&self, node: usize) -> Result<FailPoint> {
        let uri = self.node(node)?.direct_uri();
        FailPoint::set(&uri, "stopReplProducer", "alwaysOn", doc! {}).await
    }

    async fn primary_but(&self, old: Option<usize>) -> Result<usize> {
        wait_for("a primary", ELECTION, async || {
            Ok(self
                .newest_primary()
                .await
                .filter(|node| Some(*node) != old))
        })
        .await
        .with_context(|| self.log_tails())
    }

    /// A resumed or cut-off old primary may still think it is one; the election's id rises.
    async fn newest_primary(&self) -> Option<usize> {
        let answers = self.answers().await.into_iter().enumerate();
        answers
            .filter_map(|(node, answer)| {
                let answer = answer.filter(|answer| says(answer, "isWritablePrimary"))?;
                let election: ObjectId = answer.get_object_id("electionId").ok()?;
                Some((election, node))
            })
            .max()
            .map(|(_, node)| node)
    }

    async fn indexes_where(&self, wanted: impl Fn(&Document) -> bool) -> Vec<usize> {
        let answers = self.answers().await.into_iter().enumerate();
        answers
            .filter(|(_, answer)| answer.as_ref().is_some_and(&wanted))
            .map(|(node, _)| node)
            .collect()
    }

    /// What each node says it is; none from one that does not answer.
    async fn answers(&self) -> Vec<Option<Document>> {
        join_all(self.nodes.iter().map(answer)).await
    }

    async fn wait_until_member(&self, node: usize) -> Result<()> {
        eventually("a primary or secondary", ELECTION, async || {
            let state = answer(self.node(node)?).await.context("no answer")?;
            Ok(["isWritablePrimary", "secondary"]
                .iter()
                .any(|field| says(&state, field)))
        })
        .await
        .with_context(|| self.log_tails())
    }

    fn node(&self, node: usize) -> Result<&Mongod> {
        self.nodes
            .get(node)
            .with_context(|| format!("there is no node {node}"))
    }

    fn node_mut(&mut self, node: usize) -> Result<&mut Mongod> {
        ensure!(node < self.nodes.len(), "there is no node {node}");
        Ok(&mut self.nodes[node])
    }

    fn log_tails(&self) -> String {
        let tails: Vec<String> = self.nodes.iter().map(Mongod::log_tail).collect();
        tails.join("\n")
    }
}

async fn answer(node: &Mongod) -> Option<Document> {
    node.pid()?;
    let asking = async { hello(&direct_client(node.port()).await?).await };
    timeout(ANSWER, asking).await.ok()?.ok()
}

fn says(answer: &Document, field: &str) -> bool {
    answer.get_bool(field).unwrap_or(false)
}
