//! Pods that hold benches and open sessions, one of which is killed: the others find it dead, have its benches switched
//! off, end its sessions, and lend them again.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lease_brain::cluster::PodLiveness;
use lease_shared::{Filter, HolderState, HolderView, LeaseService, PodId};
use mongodb::Database;
use rustix::process::Signal;
use secrecy::{ExposeSecret as _, SecretString};
use test_mongo::eventually;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::plug::Plug;
use super::pod::Handled;
use super::sessions::Sessions;
use super::{Store, fleet};

/// The lease of a bench.
pub(super) const BENCH: &str = "bench";
/// How many there are, which is fewer than all pods want and as many as two of them want.
const BENCHES: usize = 6;
/// How many a pod wants.
pub(super) const WANTED: usize = 3;
pub(super) const NAMES: [&str; 3] = ["north", "east", "west"];
/// What the demo waits for at most at each step.
const SOON: Duration = Duration::from_secs(60);

/// The pods, ended with the demo.
pub(super) struct Pods {
    children: BTreeMap<String, Child>,
    plug: Plug,
    database: Database,
    secret: SecretString,
}

/// What became of a dead pod's leases.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Leases that the killed pod held.
    pub(super) leases: usize,
    /// Benches that were switched off.
    pub(super) switched_off: usize,
    /// Sessions that the server had through the killed pod.
    pub(super) sessions: usize,
}

/// A pod that is stopped and still there, so that what it holds stays as it is.
struct Frozen {
    name: String,
    endpoint: String,
    child: Child,
    benches: Vec<HolderView>,
    sessions: Vec<String>,
}

impl Pods {
    pub(super) async fn start(store: &Store, database: Database) -> Result<Self> {
        let definition = format!(
            "name: {BENCH}\nlevels: {{ global: {BENCHES}, user: 1 }}\nttlSeconds: 60\nwaitMs: 500\n"
        );
        let document = format!("lease/{BENCH}");
        store
            .put(&document, "_vance", "_tenant", &definition)
            .await?;
        let plug = Plug::start().await?;
        let secret = SecretString::from(Uuid::new_v4().simple().to_string());
        let mut children = BTreeMap::new();
        for name in NAMES {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["__pod", "--name", name, "--plug", &plug.url()]);
            command
                .env("MONGODB_URI", &store.uri)
                .env("LEASE_DATABASE", &store.database)
                .env("LEASE_INTERNAL_TOKEN", secret.expose_secret())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true);
            children.insert(name.to_owned(), command.spawn().context("start a pod")?);
        }
        Ok(Self {
            children,
            plug,
            database,
            secret,
        })
    }

    /// What their internal routes are called with.
    pub(super) fn secret(&self) -> &SecretString {
        &self.secret
    }

    /// Kills a pod that holds benches, and sessions if there are any, and waits until the others have cleaned up behind it
    /// and hold everything.
    pub(super) async fn lose_one(
        &mut self,
        leases: &LeaseService,
        sessions: Option<&Sessions>,
        say: impl Fn(&str),
    ) -> Result<Lost> {
        self.all_lent(leases, "all benches are lent").await?;
        let mut lost = self.freeze_one(leases, sessions).await?;
        if let Some(sessions) = sessions {
            sessions.kills(&lost.endpoint);
        }
        lost.child.kill().await?;
        let started = Instant::now();
        let held = match sessions {
            Some(_) => format!(" and {} sessions", lost.sessions.len()),
            None => String::new(),
        };
        say(&format!(
            "killed with -9: pod {}, which held {} of {BENCHES} benches{held}",
            lost.name,
            lost.benches.len()
        ));
        eventually(
            "the dead pod's benches are switched off and its sessions ended",
            SOON,
            async || {
                let mut open = 0;
                for bench in &lost.benches {
                    open += usize::from(leases.views().holder(&bench.token).await?.is_some());
                }
                if let Some(sessions) = sessions {
                    open += sessions.open_of(&lost.sessions)?;
                }
                Ok(open == 0)
            },
        )
        .await?;
        let calls = self.plug.calls();
        let held = match sessions {
            Some(_) => format!(", and {} sessions ended,", lost.sessions.len()),
            None => String::new(),
        };
        say(&format!(
            "{} benches were switched off{held} by the pods that live, {:.1} s later",
            calls.len(),
            started.elapsed().as_secs_f64()
        ));
        self.all_lent(leases, "all benches are lent again").await?;
        Ok(Lost {
            leases: lost.benches.len(),
            switched_off: calls.len(),
            sessions: lost.sessions.len(),
        })
    }

    /// Stops the pod with the most benches among those that have a session too, if there are any, and looks again: what
    /// a stopped process holds does not change any more.
    async fn freeze_one(
        &mut self,
        leases: &LeaseService,
        sessions: Option<&Sessions>,
    ) -> Result<Frozen> {
        let give_up = Instant::now() + SOON;
        while Instant::now() < give_up {
            let liveness = PodLiveness::read(&self.database, None).await?;
            let mut pods: Vec<_> = by_pod(benches(leases).await?).into_iter().collect();
            pods.sort_by_key(|(_, held)| Reverse(held.len()));
            for (pod, _) in pods {
                let pod_id = PodId::new(&pod)?;
                let name = liveness.node_name(&pod_id).context("a pod without a row")?;
                let Some(endpoint) = liveness.endpoint(&pod_id) else {
                    continue;
                };
                if matches!(sessions, Some(all) if all.through(endpoint).await?.is_empty()) {
                    continue;
                }
                let child = self.children.get(name).context("a pod not ours")?;
                let pid = i32::try_from(child.id().context("a pod ended by itself")?)?;
                fleet::signal(pid, Signal::STOP)?;
                let benches = by_pod(benches(leases).await?)
                    .remove(&pod)
                    .unwrap_or_default();
                let through = match sessions {
                    Some(sessions) => sessions.through(endpoint).await?,
                    None => Vec::new(),
                };
                if benches.is_empty() || (sessions.is_some() && through.is_empty()) {
                    fleet::signal(pid, Signal::CONT)?;
                    continue;
                }
                return Ok(Frozen {
                    name: name.to_owned(),
                    endpoint: endpoint.to_owned(),
                    child: self.children.remove(name).context("a pod not ours")?,
                    benches,
                    sessions: through,
                });
            }
            sleep(Duration::from_millis(100)).await;
        }
        bail!("no pod had both benches and a session within {SOON:?}")
    }

    async fn all_lent(&mut self, leases: &LeaseService, what: &str) -> Result<()> {
        for child in self.children.values_mut() {
            ensure!(child.try_wait()?.is_none(), "a pod ended by itself");
        }
        eventually(what, SOON, async || {
            let lent = benches(leases).await?;
            ensure!(
                lent.len() <= BENCHES,
                "{} of {BENCHES} benches are lent",
                lent.len()
            );
            Ok(lent.len() == BENCHES)
        })
        .await
    }

    /// Lets the pods drain, and gives what their handlers did.
    pub(super) async fn stop(self) -> Result<Handled> {
        let mut all = Handled::default();
        for (name, mut child) in self.children {
            drop(child.stdin.take());
            let ended = tokio::time::timeout(SOON, child.wait_with_output()).await;
            let output = ended.with_context(|| format!("pod {name} does not drain"))??;
            ensure!(output.status.success(), "pod {name}: {}", output.status);
            let handled: Handled = serde_json::from_slice(&output.stdout)
                .with_context(|| format!("what pod {name} said at its end"))?;
            all.run += handled.run;
            all.failed += handled.failed;
        }
        Ok(all)
    }
}

/// The benches that are lent, or of which it is not yet known that they are off.
async fn benches(leases: &LeaseService) -> Result<Vec<HolderView>> {
    let filter = Filter {
        resource: Some(BENCH.to_owned()),
        ..Filter::default()
    };
    let mut listed = leases.views().holders(&filter).await?.entries;
    listed.retain(|holder| holder.state != HolderState::Pending);
    Ok(listed)
}

fn by_pod(benches: Vec<HolderView>) -> BTreeMap<String, Vec<HolderView>> {
    let mut by_pod: BTreeMap<String, Vec<HolderView>> = BTreeMap::new();
    for bench in benches {
        let pod = bench.pod.clone().unwrap_or_default();
        by_pod.entry(pod).or_default().push(bench);
    }
    by_pod
}
