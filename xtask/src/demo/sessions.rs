//! Users' sessions at an MCP server that knows nothing of leases: what is said of sessions here is by its own log, by its
//! answers within a session, and by asking it at the end for each that it ever had.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Result, ensure};
use mongodb::Database;
use secrecy::SecretString;
use serde::Serialize;
use test_mcp::real::{Everything, SessionEvent, Tools};

use super::Store;
use super::users::{Told, Users};

/// The tool, and the lease of its sessions.
pub(super) const TOOL: &str = "session";
/// Fewer sessions than there are projects, and fewer in a project than it has users: both levels bind.
const GLOBAL: usize = 2;
const PROJECT: usize = 1;
/// After how long without a use a session is ended, whose user has gone away.
pub(super) const TTL_SECONDS: u64 = 3;

/// The server, and its users.
pub(super) struct Sessions {
    server: Everything,
    users: Users,
}

/// What became of the sessions and of the calls in them.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    opened: usize,
    /// Ended because their users said so.
    closed: usize,
    /// Had by the server through the pod that was killed, when it was killed.
    of_killed_pod: usize,
    /// Known to the server when all pods had ended.
    left: usize,
    calls: usize,
    busy: usize,
    lost: usize,
    unavailable: usize,
    /// Not answered by the pod that was killed.
    cut_off: usize,
    /// Ended in any other way.
    failed: usize,
    /// How often a session was opened above a cap.
    over_cap: usize,
    /// Sessions in which no call told whose they are: they count globally alone.
    unnamed: usize,
    max_in_use: BTreeMap<String, usize>,
    cap: BTreeMap<String, usize>,
}

impl Sessions {
    /// Starts the server, and defines the tool and its lease.
    pub(super) async fn start(store: &Store, tools: &Tools) -> Result<Self> {
        let server = Everything::http(tools).await?;
        let lease = format!(
            "name: {TOOL}\nlevels: {{ global: {GLOBAL}, project: {PROJECT} }}\nttlSeconds: {TTL_SECONDS}\nwaitMs: 500\n"
        );
        // With an event stream the server would notice by itself that a pod is gone.
        let tool = format!(
            "type: mcp_server\nparameters:\n  transport: http\n  url: {}\n  eventStream: false\n  initTimeoutSeconds: 30\n  lease: {TOOL}\n",
            server.url()
        );
        for (document, text) in [
            (format!("lease/{TOOL}"), lease),
            (format!("tools/{TOOL}"), tool),
        ] {
            store.put(&document, "_vance", "_tenant", &text).await?;
        }
        let users = Users::default();
        Ok(Self { server, users })
    }

    /// Lets the users begin, as soon as all pods are there.
    pub(super) fn begin(&mut self, database: &Database, secret: &SecretString) {
        self.users.begin(database, secret);
    }

    /// Lets the users end what they do. Sessions that are open then stay open.
    pub(super) async fn end(&mut self) -> Result<()> {
        self.users.end().await
    }

    /// Calls that the pod at `endpoint` does not answer from now on are to be expected.
    pub(super) fn kills(&self, endpoint: &str) {
        self.users.tally().killed = Some(endpoint.to_owned());
    }

    /// The sessions that the server has and that were used through the pod at `endpoint`.
    pub(super) async fn through(&self, endpoint: &str) -> Result<Vec<String>> {
        let open = open(&self.server.session_events()?);
        let told = self.users.tally().told.clone();
        let mut through = Vec::new();
        for id in open {
            if told.get(&id).is_some_and(|told| told.pod == endpoint)
                && self.server.has_session(&id).await?
            {
                through.push(id);
            }
        }
        Ok(through)
    }

    /// How many of these the server still has.
    pub(super) fn open_of(&self, sessions: &[String]) -> Result<usize> {
        let open = open(&self.server.session_events()?);
        Ok(sessions.iter().filter(|id| open.contains(*id)).count())
    }

    /// What is to be said when all pods have ended.
    pub(super) async fn verdict(&self, of_killed_pod: usize) -> Result<Verdict> {
        let events = self.server.session_events()?;
        let tally = self.users.tally().clone();
        let opened: BTreeSet<&String> = events
            .iter()
            .filter_map(|event| match event {
                SessionEvent::Opened(id) => Some(id),
                SessionEvent::Ended(_) => None,
            })
            .collect();
        ensure!(
            tally.told.keys().all(|id| opened.contains(id)),
            "the server's log does not tell of all its sessions"
        );
        let mut left = 0;
        for &id in &opened {
            left += usize::from(self.server.has_session(id).await?);
        }
        let replay = replay(&events, &tally.told);
        Ok(Verdict {
            opened: opened.len(),
            closed: tally.closed,
            of_killed_pod,
            left,
            calls: tally.calls,
            busy: tally.busy,
            lost: tally.lost,
            unavailable: tally.unavailable,
            cut_off: tally.cut_off,
            failed: tally.failed,
            over_cap: replay.over_cap,
            unnamed: opened.len() - tally.told.len(),
            max_in_use: replay.max_in_use,
            cap: replay.cap,
        })
    }
}

impl Verdict {
    /// Fails on what must not be.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            self.left + self.over_cap + self.failed == 0,
            "{} sessions were left at the server, {} opened above a cap, {} calls failed",
            self.left,
            self.over_cap,
            self.failed
        );
        ensure!(self.calls > 0, "no call in a session came about");
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, most) in &self.max_in_use {
            let cap = self.cap.get(key).copied().unwrap_or(0);
            writeln!(f, "{key:<32} at most {most} of {cap} in use")?;
        }
        write!(
            f,
            "{} sessions at an MCP server, {} of them of the killed pod: {} calls, {} were told busy, {} lost their lease, {} found the store unavailable, {} were cut off, {} failed; {} sessions are left there",
            self.opened,
            self.of_killed_pod,
            self.calls,
            self.busy,
            self.lost,
            self.unavailable,
            self.cut_off,
            self.failed,
            self.left
        )
    }
}

fn open(events: &[SessionEvent]) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for event in events {
        match event {
            SessionEvent::Opened(id) => open.insert(id.clone()),
            SessionEvent::Ended(id) => open.remove(id),
        };
    }
    open
}

/// The server's log, replayed.
#[derive(Debug, Default)]
struct Replay {
    over_cap: usize,
    max_in_use: BTreeMap<String, usize>,
    cap: BTreeMap<String, usize>,
}

fn replay(events: &[SessionEvent], told: &BTreeMap<String, Told>) -> Replay {
    let mut replay = Replay::default();
    let mut in_use: BTreeMap<String, usize> = BTreeMap::new();
    for event in events {
        let (SessionEvent::Opened(id) | SessionEvent::Ended(id)) = event;
        let opened = matches!(event, SessionEvent::Opened(_));
        let project = told
            .get(id)
            .map(|told| (format!("{TOOL}|project|{}", told.project), PROJECT));
        let mut over = false;
        for (key, cap) in [(format!("{TOOL}|global|"), GLOBAL)]
            .into_iter()
            .chain(project)
        {
            let count = in_use.entry(key.clone()).or_default();
            *count = if opened {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
            over |= *count > cap;
            let most = replay.max_in_use.entry(key.clone()).or_default();
            *most = (*most).max(*count);
            replay.cap.insert(key, cap);
        }
        replay.over_cap += usize::from(opened && over);
    }
    replay
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_opened_before_another_of_its_project_has_ended_is_over_the_cap() {
        let opened = |id: &str| SessionEvent::Opened(id.to_owned());
        let ended = |id: &str| SessionEvent::Ended(id.to_owned());
        let told = |project: &str| Told {
            project: project.to_owned(),
            pod: String::new(),
        };
        let check = |events: &[SessionEvent], projects: [&str; 2], over: usize| {
            let ids = ["a".to_owned(), "b".to_owned()];
            let told = ids.into_iter().zip(projects.map(told)).collect();
            assert_eq!(replay(events, &told).over_cap, over, "{events:?}");
        };
        let together = [opened("a"), opened("b"), ended("a"), ended("b")];
        check(&together, ["acme/thesis", "acme/thesis"], 1);
        check(&together, ["acme/thesis", "acme/paper"], 0);
        let apart = [opened("a"), ended("a"), opened("b"), ended("b")];
        check(&apart, ["acme/thesis", "acme/thesis"], 0);
        // Whose it is nobody knows.
        let third = [opened("a"), opened("b"), opened("c")];
        check(&third, ["acme/thesis", "acme/paper"], 1);
    }
}
