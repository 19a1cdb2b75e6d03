//! Pods that hold benches, one of which is killed: the others find it dead, have its benches switched off, and lend them
//! again.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lease_brain::cluster::PodLiveness;
use lease_shared::{Filter, HolderState, HolderView, LeaseService, PodId};
use mongodb::Database;
use test_mongo::eventually;
use tokio::process::{Child, Command};
use uuid::Uuid;

use super::Store;
use super::plug::Plug;
use super::pod::Handled;

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
}

/// What became of a dead pod's leases.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Leases that the killed pod held.
    pub(super) leases: usize,
    /// Benches that were switched off.
    pub(super) switched_off: usize,
}

impl Pods {
    pub(super) async fn start(store: &Store, database: Database) -> Result<Self> {
        let definition = format!(
            "name: {BENCH}\nlevels: {{ global: {BENCHES}, user: 1 }}\nttlSeconds: 60\nwaitMs: 500\n"
        );
        store.put(BENCH, "_vance", "_tenant", &definition).await?;
        let plug = Plug::start().await?;
        let secret = Uuid::new_v4().simple().to_string();
        let mut children = BTreeMap::new();
        for name in NAMES {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["__pod", "--name", name, "--plug", &plug.url()]);
            command
                .env("MONGODB_URI", &store.uri)
                .env("LEASE_DATABASE", &store.database)
                .env("LEASE_INTERNAL_TOKEN", &secret)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true);
            children.insert(name.to_owned(), command.spawn().context("start a pod")?);
        }
        Ok(Self {
            children,
            plug,
            database,
        })
    }

    /// Kills the pod that holds the most, and waits until the others have cleaned up behind it and hold everything.
    pub(super) async fn lose_one(
        &mut self,
        leases: &LeaseService,
        say: impl Fn(&str),
    ) -> Result<Lost> {
        self.all_lent(leases, "all benches are lent").await?;
        let held = benches(leases).await?;
        let mut by_pod: BTreeMap<String, Vec<HolderView>> = BTreeMap::new();
        for bench in held {
            by_pod
                .entry(bench.pod.clone().unwrap_or_default())
                .or_default()
                .push(bench);
        }
        let (victim, lost) = by_pod
            .into_iter()
            .max_by_key(|(_, held)| held.len())
            .context("nothing is lent")?;
        let liveness = PodLiveness::read(&self.database, None).await?;
        let name = liveness
            .node_name(&PodId::new(&victim)?)
            .context("a pod without a row")?;
        let mut child = self
            .children
            .remove(name)
            .context("a pod that is not ours")?;
        child.kill().await?;
        let started = tokio::time::Instant::now();
        say(&format!(
            "killed with -9: pod {name}, which held {} of {BENCHES} benches",
            lost.len()
        ));
        eventually(
            "the dead pod's benches are switched off",
            SOON,
            async || {
                let mut open = 0;
                for bench in &lost {
                    open += usize::from(leases.views().holder(&bench.token).await?.is_some());
                }
                Ok(open == 0)
            },
        )
        .await?;
        let calls = self.plug.calls();
        say(&format!(
            "{} benches were switched off by the pods that live, {:.1} s later",
            calls.len(),
            started.elapsed().as_secs_f64()
        ));
        self.all_lent(leases, "all benches are lent again").await?;
        Ok(Lost {
            leases: lost.len(),
            switched_off: calls.len(),
        })
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
