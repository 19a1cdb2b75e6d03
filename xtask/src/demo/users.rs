//! Users who call a tool through whichever pod lives, and do not always close their session behind them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use lease_brain::api::{Problem, ToolCall, ToolsCall};
use lease_brain::client::{BrainClient, CallError};
use lease_brain::cluster::PodLiveness;
use mongodb::Database;
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::pods::NAMES;
use super::sessions::{TOOL, TTL_SECONDS};

const PROJECTS: [[&str; 2]; 3] = [
    ["acme", "thesis"],
    ["acme", "paper"],
    ["umbrella", "thesis"],
];
const USERS: [&str; 2] = ["ada", "bob"];
const CALLS_PER_VISIT: usize = 3;
/// How long an answer may take, a session's opening included.
const LIMIT: Duration = Duration::from_secs(60);
/// A tool of the server's that says the id of the session it is called in; what else it does nobody sees.
const WHICH: &str = "toggle-subscriber-updates";

/// Some users of each project, each at a pod of its own choice.
#[derive(Default)]
pub(super) struct Users {
    tally: Arc<Mutex<Tally>>,
    tasks: JoinSet<Result<()>>,
    stop: CancellationToken,
}

/// How the calls ended so far, and what the server said in them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) calls: usize,
    pub(super) busy: usize,
    pub(super) lost: usize,
    pub(super) unavailable: usize,
    pub(super) cut_off: usize,
    pub(super) failed: usize,
    pub(super) closed: usize,
    /// The sessions by their ids, as the server told each user.
    pub(super) told: BTreeMap<String, Told>,
    /// Where the pod was that was killed.
    pub(super) killed: Option<String>,
}

/// Whose a session is.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) project: String,
    /// Where the pod is through which it was used.
    pub(super) pod: String,
}

impl Users {
    pub(super) fn begin(&mut self, database: &Database, secret: &SecretString) {
        let everybody = PROJECTS
            .into_iter()
            .flat_map(|[tenant, project]| USERS.map(|user| [tenant, project, user]));
        for (index, [tenant, project, user]) in everybody.enumerate() {
            let user = User {
                whose: ToolsCall {
                    tenant: tenant.to_owned(),
                    project: project.to_owned(),
                    user: format!("{user}-{project}"),
                },
                index,
                database: database.clone(),
                secret: secret.clone(),
                tally: Arc::clone(&self.tally),
                stop: self.stop.clone(),
            };
            self.tasks.spawn(user.run());
        }
    }

    /// Waits until each has the answer that it waits for. A session that is open stays so.
    pub(super) async fn end(&mut self) -> Result<()> {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        locked(&self.tally)
    }
}

struct User {
    whose: ToolsCall,
    index: usize,
    database: Database,
    secret: SecretString,
    tally: Arc<Mutex<Tally>>,
    stop: CancellationToken,
}

impl User {
    async fn run(self) -> Result<()> {
        let Some(all) = self.stop.run_until_cancelled(self.all_pods()).await else {
            return Ok(());
        };
        // The users of one project are at different pods.
        let mut pod = self.client(&all?)?;
        while !self.stop.is_cancelled() {
            let pause = match self.visit(&pod).await {
                Ok(pause) => pause,
                Err(error) => {
                    self.hear(&pod, &error);
                    millis(300..900)
                }
            };
            self.stop.run_until_cancelled(sleep(pause)).await;
            if locked(&self.tally).killed.as_deref() == Some(pod.endpoint()) {
                pod = self.client(&self.pods().await?)?;
            }
        }
        Ok(())
    }

    /// Some calls, and then the session is closed, or forgotten. Gives how long the user is away.
    async fn visit(&self, pod: &BrainClient) -> Result<Duration, CallError> {
        for turn in 0..CALLS_PER_VISIT {
            if turn == 0 {
                let answer = self.call(pod, WHICH, json!({})).await?;
                self.note(pod, &answer);
            } else {
                let message = format!("{} {turn}", self.whose.user);
                let answer = self
                    .call(pod, "echo", json!({ "message": message }))
                    .await?;
                self.count(answer == format!("Echo: {message}"), &answer);
            }
            sleep(millis(50..200)).await;
        }
        if fastrand::u8(..4) == 0 {
            return Ok(Duration::from_secs(TTL_SECONDS) + millis(500..1500));
        }
        let reply = pod.mcp_close(TOOL, &self.whose, LIMIT).await?;
        locked(&self.tally).closed += usize::from(reply.closed);
        Ok(millis(50..400))
    }

    /// The text of a tool's answer.
    async fn call(
        &self,
        pod: &BrainClient,
        name: &str,
        arguments: Value,
    ) -> Result<String, CallError> {
        let call = ToolCall {
            tenant: self.whose.tenant.clone(),
            project: self.whose.project.clone(),
            user: self.whose.user.clone(),
            name: name.to_owned(),
            arguments: match arguments {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            },
        };
        let reply = pod.mcp_call(TOOL, &call, LIMIT).await?;
        let text = reply.result["content"][0]["text"].as_str();
        Ok(text.map_or_else(|| reply.result.to_string(), str::to_owned))
    }

    /// Keeps whose session it was in which the server gave this answer.
    fn note(&self, pod: &BrainClient, answer: &str) {
        let id = answer
            .split_once("for session ")
            .and_then(|(_, rest)| rest.split_whitespace().next());
        self.count(id.is_some(), answer);
        if let Some(id) = id {
            let told = Told {
                project: format!("{}/{}", self.whose.tenant, self.whose.project),
                pod: pod.endpoint().to_owned(),
            };
            locked(&self.tally).told.insert(id.to_owned(), told);
        }
    }

    fn count(&self, right: bool, answer: &str) {
        let mut tally = locked(&self.tally);
        if right {
            tally.calls += 1;
        } else {
            tally.failed += 1;
            eprintln!("a user of a tool: not the answer to the call: {answer}");
        }
    }

    /// To be told busy is part of the game, and so is a pod that was killed; what else goes wrong is to be seen.
    fn hear(&self, pod: &BrainClient, error: &CallError) {
        let code = match error {
            CallError::Refused { problem, .. } => problem.code.as_str(),
            _ => "",
        };
        let mut tally = locked(&self.tally);
        match code {
            Problem::BUSY => tally.busy += 1,
            Problem::LOST => tally.lost += 1,
            // Nothing was called; a pod that has just begun says so too.
            Problem::UNAVAILABLE | Problem::UNKNOWN => tally.unavailable += 1,
            _ if tally.killed.as_deref() == Some(pod.endpoint()) => tally.cut_off += 1,
            _ => {
                tally.failed += 1;
                eprintln!("a user of a tool: {error}");
            }
        }
    }

    /// Where all pods are, as soon as all are there.
    async fn all_pods(&self) -> Result<Vec<String>> {
        loop {
            let pods = self.pods().await?;
            if pods.len() == NAMES.len() {
                return Ok(pods);
            }
            sleep(millis(100..200)).await;
        }
    }

    /// Where the pods are that live.
    async fn pods(&self) -> Result<Vec<String>> {
        let liveness = PodLiveness::read(&self.database, None).await?;
        let killed = locked(&self.tally).killed.clone();
        let alive = liveness.pods().iter().filter(|pod| pod.alive);
        let endpoints = alive.filter_map(|pod| pod.endpoint.clone());
        Ok(endpoints
            .filter(|endpoint| Some(endpoint) != killed.as_ref())
            .collect())
    }

    fn client(&self, pods: &[String]) -> Result<BrainClient> {
        let turn = self.index.checked_rem(pods.len()).unwrap_or(0);
        let endpoint = pods.get(turn).context("no pod lives")?;
        Ok(BrainClient::new(endpoint, &self.secret)?)
    }
}

fn millis(range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

fn locked(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
