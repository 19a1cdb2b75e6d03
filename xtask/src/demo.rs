//! `cargo xtask demo`: real commands from several processes share a resource under caps, and two of them are killed; pods
//! hold what must be switched off, and users' sessions at an MCP server, and one of them is killed.

mod board;
pub(crate) mod contender;
mod fleet;
pub(crate) mod job;
mod journal;
mod plug;
pub(crate) mod pod;
mod pods;
mod replay;
mod sessions;
mod users;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lease_shared::{LeaseService, LeaseToken, connect};
use serde::Serialize;
use test_mongo::{Mongod, eventually};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::cargo::{cargo, succeed};
use crate::mongo::given_uri;
use board::Board;
use fleet::Fleet;
use journal::{Entry, Journal};
use pods::{NAMES, Pods};
use sessions::Sessions;

/// The lease that all contend for.
const LEASE: &str = "compile";
const TENANTS: [&str; 2] = ["acme", "umbrella"];
const PROJECTS: [&str; 2] = ["thesis", "paper"];
const USERS: [&str; 3] = ["ada", "bob", "eve"];
const LOOPS_PER_USER: usize = 2;
const CONTENDERS: usize = 3;

/// Who may own what: the ceiling and the tenants' share by the operator, the projects' by the tenant, the users' by the
/// project. So three layers decide, and each level binds somewhere.
const SYSTEM: &str =
    "name: compile\nlevels: { global: 4, tenant: 3 }\nttlSeconds: 6\nwaitMs: 1500\n";
const TENANT: &str = "name: compile\nlevels: { project: 2 }\n";
const PROJECT: &str = "name: compile\nlevels: { user: 1 }\n";

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
#[command(after_help = "Example: cargo xtask demo --seconds 30")]
pub(crate) struct Opts {
    /// How long the commands contend; the end waits for what was killed to come back
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(5..=3600))]
    seconds: u64,
    /// Print the verdict as one JSON object; `sessions` in it is null where what MCP servers need is missing
    #[arg(long)]
    json: bool,
}

/// What the demo saw. Everything about slots in use comes from the commands' own journal, which knows nothing of leases.
#[derive(Debug, Serialize)]
struct Verdict {
    granted: usize,
    busy: usize,
    lost: usize,
    unavailable: usize,
    /// Ended in any other way than those above, though nobody killed them.
    failed: usize,
    killed: usize,
    reaped: usize,
    pods: usize,
    /// Leases of the pod that was killed.
    revoked: usize,
    handlers_run: usize,
    handlers_failed: usize,
    /// Of what these handlers switch off, how much nobody did.
    left_on: usize,
    over_cap: usize,
    leaked: usize,
    max_in_use: BTreeMap<String, usize>,
    cap: BTreeMap<String, usize>,
    /// `null` where Node is missing.
    sessions: Option<sessions::Verdict>,
    seconds: f64,
}

/// A killed command, and what must become of its slot.
struct Killed {
    entry: Entry,
    what: &'static str,
}

pub(crate) async fn run(opts: Opts) -> Result<()> {
    let started = Instant::now();
    let lease = build_binaries()?.join("lease");
    let tools = test_mcp::real::tools_for("the demo's sessions at an MCP server")?;
    let server = match given_uri().await {
        Some(_) => None,
        None => Some(Mongod::start().await?),
    };
    let uri = given_uri()
        .await
        .or_else(|| server.as_ref().map(Mongod::uri))
        .context("no server")?;
    let database = format!("demo_{}", std::process::id());
    let client = connect(&uri).await?;
    let scratch = tempfile::tempdir()?;
    let journal = Journal::create(scratch.path().join("journal"))?;
    let store = Store {
        uri,
        database,
        lease,
    };
    store.define().await?;
    let leases = LeaseService::builder(client.database(&store.database))
        .follow_changes(false)
        .start()
        .await?;
    if !opts.json {
        println!(
            "{} users of {} tenants in {CONTENDERS} processes: {}",
            TENANTS.len() * PROJECTS.len() * USERS.len(),
            TENANTS.len(),
            job::describe()
        );
        println!(
            "caps: global 4, tenant 3 (system layer), project 2 (tenant layer), user 1 (project layer)"
        );
    }

    let board = Board::new(!opts.json);
    let mut sessions = match &tools {
        Some(tools) => Some(Sessions::start(&store, tools).await?),
        None => None,
    };
    let mut pods = Pods::start(&store, client.database(&store.database)).await?;
    if let Some(sessions) = &mut sessions {
        sessions.begin(&client.database(&store.database), pods.secret());
    }
    let mut fleet = Fleet::start(&store, &journal)?;
    let (watched, lost) = tokio::join!(
        watch(&opts, &mut fleet, &journal, &leases, &board),
        pods.lose_one(&leases, sessions.as_ref(), |text| board.say(text)),
    );
    board.end();
    let outcomes = fleet.stop().await;
    let users = match &mut sessions {
        Some(sessions) => sessions.end().await,
        None => Ok(()),
    };
    let (killed, reaped) = watched?;
    let (outcomes, lost) = (outcomes?, lost?);
    users?;
    let handled = pods.stop().await?;
    let sessions = match &sessions {
        Some(sessions) => Some(sessions.verdict(lost.sessions).await?),
        None => None,
    };
    let swept = leases.sweep().await;
    ensure!(
        swept.failed.is_empty(),
        "the final sweep failed: {:?}",
        swept.failed
    );
    leases.reconciler().reconcile(false).await?;
    let counters = leases.views().counters(&Default::default()).await?.entries;
    let replay = replay::replay(&journal.read()?);
    let verdict = Verdict {
        granted: replay.granted,
        busy: outcomes.busy,
        lost: outcomes.lost,
        unavailable: outcomes.unavailable,
        failed: outcomes.failed,
        killed,
        reaped,
        pods: NAMES.len(),
        revoked: lost.leases,
        handlers_run: handled.run,
        handlers_failed: handled.failed,
        left_on: lost.leases.saturating_sub(lost.switched_off),
        over_cap: replay.over_cap,
        leaked: counters
            .iter()
            .map(|counter| counter.count.unsigned_abs() as usize)
            .sum(),
        max_in_use: replay.max_in_use,
        cap: replay.cap,
        sessions,
        seconds: (started.elapsed().as_secs_f64() * 10.0).round() / 10.0,
    };
    client.database(&store.database).drop().await?;
    report(&opts, &verdict)
}

/// Lets them contend; kills one wrapper, then one holder with all that belongs to it; waits until both slots are used
/// again. Gives how many were killed, and how many of these came back.
async fn watch(
    opts: &Opts,
    fleet: &mut Fleet,
    journal: &Journal,
    leases: &LeaseService,
    board: &Board,
) -> Result<(usize, usize)> {
    let contend_until = Instant::now() + Duration::from_secs(opts.seconds);
    let mut killed: Vec<Killed> = Vec::new();
    let first_kill = Instant::now() + Duration::from_secs(1);
    let mut reaped = 0;
    let give_up = contend_until + Duration::from_secs(60);
    let mut each_level_was_full = false;
    while Instant::now() < contend_until || reaped < 2 || !each_level_was_full {
        ensure!(
            Instant::now() < give_up,
            "not in time: {reaped} of 2 killed commands' slots came back, and each level was full somewhere: {each_level_was_full}"
        );
        fleet.check()?;
        sleep(Duration::from_millis(200)).await;
        let outcomes = fleet.outcomes();
        board.show(leases, &outcomes).await;
        if killed.len() < 2 && Instant::now() > first_kill {
            let whole_group = killed.len() == 1;
            if let Some(victim) = kill(fleet, journal, whole_group, &killed).await? {
                board.say(&format!(
                    "killed with -9: {} of {}",
                    victim.what,
                    victim.entry.who()
                ));
                killed.push(victim);
            }
        }
        each_level_was_full = replay::replay(&journal.read()?).each_level_was_full();
        if killed.len() == 2 {
            reaped = came_back(&killed, journal, leases).await?;
        }
    }
    Ok((killed.len(), reaped))
}

/// Kills somebody who is inside, under the journal's lock: so the victim can neither leave nor can its slot be entered
/// by another before the journal says that it is gone.
async fn kill(
    fleet: &Fleet,
    journal: &Journal,
    whole_group: bool,
    before: &[Killed],
) -> Result<Option<Killed>> {
    let locked = journal.lock()?;
    let inside = replay::inside(&journal.read()?);
    let other = |entry: &&Entry| {
        before
            .iter()
            .all(|killed| killed.entry.who() != entry.who())
    };
    let Some(entry) = inside.into_iter().find(|entry| other(&entry)) else {
        return Ok(None);
    };
    let Some(wrapper) = fleet.wrapper_of(&entry) else {
        return Ok(None);
    };
    // The wrapper first: alive, it would see the end of its command and release.
    fleet::kill_process(wrapper)?;
    if whole_group {
        fleet::kill_process(entry.guardian)?;
        fleet::kill_group(entry.pid)?;
    }
    eventually(
        "a killed command is gone",
        Duration::from_secs(10),
        async || Ok(fleet::is_gone(entry.pid)),
    )
    .await?;
    locked.append(&entry.gone())?;
    let what = if whole_group {
        "wrapper, guardian and command"
    } else {
        "the wrapper"
    };
    Ok(Some(Killed { entry, what }))
}

/// How many of the killed have been reaped and their user's slot entered again.
async fn came_back(killed: &[Killed], journal: &Journal, leases: &LeaseService) -> Result<usize> {
    let lines = journal.read()?;
    let mut reaped = 0;
    for victim in killed {
        let token = LeaseToken::new(victim.entry.token.as_str())?;
        let gone = leases.views().holder(&token).await?.is_none();
        if gone && replay::entered_after(&lines, &victim.entry) {
            reaped += 1;
        }
    }
    Ok(reaped)
}

/// What every process of the demo needs to know.
#[derive(Clone)]
struct Store {
    uri: String,
    database: String,
    lease: PathBuf,
}

impl Store {
    /// The `lease` command on the demo's database.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.lease);
        command
            .env("MONGODB_URI", &self.uri)
            .env("LEASE_DATABASE", &self.database)
            .stdin(Stdio::null());
        command
    }

    async fn define(&self) -> Result<()> {
        let document = format!("lease/{LEASE}");
        self.put(&document, "_vance", "_tenant", SYSTEM).await?;
        for tenant in TENANTS {
            self.put(&document, tenant, "_tenant", TENANT).await?;
            for project in PROJECTS {
                self.put(&document, tenant, project, PROJECT).await?;
            }
        }
        Ok(())
    }

    async fn put(&self, document: &str, tenant: &str, project: &str, text: &str) -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), text)?;
        let path = format!("_vance/config/{document}.yaml");
        let mut command = self.command();
        command
            .args([
                "document",
                "put",
                &path,
                "--tenant",
                tenant,
                "--project",
                project,
                "--file",
            ])
            .arg(file.path());
        let status = command.status().await?;
        ensure!(status.success(), "lease document put: {status}");
        Ok(())
    }
}

/// Builds `lease` and `brain`, as quietly as nothing goes wrong, and gives their folder.
pub(crate) fn build_binaries() -> Result<PathBuf> {
    eprintln!("building `lease` and `brain` …");
    succeed(&mut cargo([
        "build",
        "--quiet",
        "--package",
        "lease-brain",
        "--bin",
        "lease",
        "--bin",
        "brain",
    ]))?;
    Ok(test_mongo::paths::target().join("debug"))
}

fn report(opts: &Opts, verdict: &Verdict) -> Result<()> {
    if opts.json {
        println!("{}", serde_json::to_string(verdict)?);
    } else {
        println!();
        for (key, cap) in &verdict.cap {
            println!(
                "{key:<32} at most {} of {cap} in use",
                verdict.max_in_use.get(key).copied().unwrap_or(0)
            );
        }
        println!(
            "{} commands ran, {} were told busy, {} lost their lease, {} found the store unavailable, {} were killed and {} of their slots came back, in {} s",
            verdict.granted,
            verdict.busy,
            verdict.lost,
            verdict.unavailable,
            verdict.killed,
            verdict.reaped,
            verdict.seconds
        );
        println!(
            "{} pods, one of them killed with {} leases: {} handlers ran in the others, {} failed, {} benches were left on",
            verdict.pods,
            verdict.revoked,
            verdict.handlers_run,
            verdict.handlers_failed,
            verdict.left_on
        );
        if let Some(sessions) = &verdict.sessions {
            println!("{sessions}");
        }
    }
    if verdict.over_cap + verdict.leaked + verdict.failed + verdict.left_on > 0 {
        bail!(
            "{} times over a cap, {} slots leaked, {} commands failed, {} benches left on",
            verdict.over_cap,
            verdict.leaked,
            verdict.failed,
            verdict.left_on
        );
    }
    if let Some(sessions) = &verdict.sessions {
        sessions.check()?;
    }
    if !opts.json {
        println!("no cap was passed, no slot was leaked");
    }
    Ok(())
}
