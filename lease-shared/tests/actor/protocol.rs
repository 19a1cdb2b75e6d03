//! What a test tells its actors and what they answer: one JSON line each, numbered, in any order.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A lease to acquire, whose holder calls itself `actor`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Want {
    pub(crate) lease: String,
    /// `soft`, `hard` or `command`.
    pub(crate) kind: String,
    /// Tenant, project, user.
    pub(crate) tenancy: [String; 3],
    pub(crate) wait_ms: u64,
}

/// Contenders of one process who acquire, use and release until their rounds are done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Contest {
    pub(crate) lease: String,
    /// The contenders take these in turn.
    pub(crate) tenancies: Vec<[String; 3]>,
    pub(crate) contenders: usize,
    pub(crate) rounds: usize,
    /// Where each writes that it enters and leaves.
    pub(crate) journal: PathBuf,
    /// Until so many have been inside together, nobody leaves.
    pub(crate) meet: usize,
    /// In how many counters each looks for its own token while it holds; zero for not at all.
    pub(crate) look_in: u64,
}

/// One thing to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    Acquire(Want),
    /// That many acquires, all at one barrier.
    Burst(Want, usize),
    /// That many acquires that stay in line; answered when they all wait.
    Queue(Want, usize),
    Check(String),
    Release(String),
    /// Checks these leases, a few at a time and in this order.
    CheckAll(Vec<String>),
    /// Releases these leases, a few at a time and in this order.
    ReleaseAll(Vec<String>),
    Contend(Contest),
    /// Revokes a lease by decision, or by force.
    Revoke(String),
    ForceRevoke(String),
    /// Revokes all that a pod holds, as if it were dead.
    RevokePod(String),
    /// Claims a clean-up that is due, and does this with it.
    CleanUp(String, CleanUp),
    /// An operator's acts on a clean-up.
    RetryCleanUp(String),
    AbandonCleanUp(String),
    Sweep,
    Reconcile,
    /// Sweeps, or reconciles, again and again until `Stop`.
    SweepOn,
    ReconcileOn,
    Stop,
    /// Waits for what goes on in the background.
    Close,
    /// How many failpoints were reached and how many commands sent to the lease collections until now.
    Count,
    /// Aborts when so many further failpoints have been reached.
    AbortAfter(usize),
    /// Stops the next task that comes before, or after, this step.
    Pause {
        step: String,
        after: bool,
    },
    /// Answered when a task has come to this gate.
    Reached(usize),
    Open(usize),
}

/// What becomes of a clean-up that was claimed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum CleanUp {
    Finish,
    RenewAndFinish,
    Fail,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    Held(String),
    /// How many were granted, and how many got no certain answer in time; the others were busy.
    Granted {
        granted: usize,
        unavailable: usize,
    },
    Busy,
    Lost,
    AlreadyReleased,
    /// Per lease: was it still held?
    Each(Vec<bool>),
    /// How many rounds were done, or how many expired leases or orphan tokens were found.
    Times(usize),
    Counted {
        hits: usize,
        commands: usize,
    },
    Gate(usize),
    Failed(String),
}
