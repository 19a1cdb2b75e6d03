//! Which brain is asked, with which secret, and what its refusals mean to the shell.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lease_brain::api::{JobProgress, JobStarted, Problem};
use lease_brain::args::internal_token;
use lease_brain::client::{BrainClient, CallError};
use lease_brain::cluster::{PodStatus, check_endpoint};
use lease_brain::mcp::{ToolName, holder_ref};
use lease_shared::{Filter, HolderView, LeaseViews, PodId, Tenancy};
use mongodb::Database;
use secrecy::SecretString;
use tokio::time::Instant;

use crate::connection::{asked, pods};
use crate::exit::{BUSY, INVALID, LOST, UNAVAILABLE, USAGE, coded};

/// What takes no longer needs no words.
const MOMENT: Duration = Duration::from_secs(1);
/// The secret, where a process list does not show it.
const TOKEN: &str = "LEASE_INTERNAL_TOKEN";
/// Where that secret, or the path to it or to that of tokens, may stand in the environment.
pub(crate) const SECRET_VARIABLES: [&str; 3] =
    [TOKEN, "LEASE_INTERNAL_TOKEN_FILE", "LEASE_JWT_SECRET_FILE"];

/// Which brain to ask.
#[derive(Args)]
#[command(next_help_heading = "Brain")]
pub(crate) struct BrainAt {
    /// The URL of a brain [default: any that is alive, as `lease pods` shows them].
    #[arg(long, env = "LEASE_BRAIN_URL", value_name = "URL")]
    brain: Option<String>,
    /// A file with the secret that brains and operators share; it can also stand in LEASE_INTERNAL_TOKEN.
    #[arg(long, env = "LEASE_INTERNAL_TOKEN_FILE", value_name = "PATH")]
    internal_token_file: Option<PathBuf>,
}

/// Brains that may be asked, the first that can be reached.
pub(crate) struct Brains(Vec<BrainClient>);

impl BrainAt {
    /// Looks for living brains where none is named. Judges the options before any traffic.
    pub(crate) async fn find(self, database: &Database) -> anyhow::Result<Brains> {
        let endpoints = match &self.brain {
            Some(url) => vec![checked(url.clone())?],
            None => {
                self.secret()?;
                living(database).await?
            }
        };
        self.clients(endpoints)
    }

    fn clients(&self, endpoints: Vec<String>) -> anyhow::Result<Brains> {
        let secret = self.secret()?;
        let clients = endpoints
            .iter()
            .map(|endpoint| BrainClient::new(endpoint, &secret))
            .collect::<Result<_, _>>()
            .map_err(|error| coded(INVALID, error.to_string()))?;
        Ok(Brains(clients))
    }

    /// Looks for the brain that keeps someone's session at a tool, or else would open it: the same one each time, for as
    /// long as it lives, or a user would wait for a session of their own in another brain.
    pub(crate) async fn find_session(
        self,
        database: &Database,
        tool: &ToolName,
        tenancy: &Tenancy,
    ) -> anyhow::Result<Brains> {
        if self.brain.is_some() {
            return self.find(database).await;
        }
        let filter = Filter {
            tenant: Some(tenancy.tenant().to_owned()),
            project: Some(tenancy.project().to_owned()),
            user: Some(tenancy.user().to_owned()),
            lease_type: Some("mcp".to_owned()),
            ..Filter::default()
        };
        let views = LeaseViews::new(database.clone());
        let held = asked(views.holders(&filter).await)?.entries;
        let liveness = pods(database).await?;
        let keeper = |pod: &PodId| {
            let its = |holder: &&HolderView| holder.holder_ref == holder_ref(tool);
            let keeps = |holder: &HolderView| holder.pod.as_deref() == Some(pod.as_str());
            held.iter().filter(its).any(keeps)
        };
        let mut at: Vec<_> = liveness
            .pods()
            .iter()
            .filter(|pod| pod.alive && pod.status == PodStatus::Running)
            .filter_map(|pod| {
                let endpoint = pod.endpoint.clone()?;
                let mut hasher = DefaultHasher::new();
                (&endpoint, tool, tenancy.to_string()).hash(&mut hasher);
                Some((!keeper(&pod.pod), hasher.finish(), endpoint))
            })
            .collect();
        at.sort();
        let endpoints = at.into_iter().map(|(.., endpoint)| endpoint).collect();
        self.clients(some_alive(endpoints)?)
    }

    fn secret(&self) -> anyhow::Result<SecretString> {
        let given = match env::var(TOKEN) {
            Ok(text) => Some(SecretString::from(text)),
            Err(env::VarError::NotPresent) => None,
            Err(env::VarError::NotUnicode(_)) => {
                return Err(coded(USAGE, format!("{TOKEN} must be UTF-8 text")));
            }
        };
        let secret = internal_token(TOKEN, given, self.internal_token_file.clone())
            .map_err(|error| coded(USAGE, format!("{:#}", anyhow::Error::from(error))))?;
        secret.ok_or_else(|| {
            coded(
                USAGE,
                "no internal token, without which a brain refuses: set LEASE_INTERNAL_TOKEN, or name a file with \
                 --internal-token-file",
            )
        })
    }
}

fn checked(url: String) -> anyhow::Result<String> {
    if check_endpoint("brain", &url).is_ok() {
        return Ok(url);
    }
    // A password is what it must not have, so it is not shown.
    let shown = match url.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => url,
    };
    let problem =
        format!("--brain {shown:?} must be the URL of a brain, like http://10.0.0.7:7311");
    Err(coded(USAGE, problem))
}

/// Where living brains are, those first that were heard last.
async fn living(database: &Database) -> anyhow::Result<Vec<String>> {
    let liveness = pods(database).await?;
    let mut pods: Vec<_> = liveness
        .pods()
        .iter()
        .filter(|pod| pod.alive && pod.status == PodStatus::Running)
        .collect();
    pods.sort_by_key(|pod| pod.last_beat_seconds);
    let endpoints: Vec<_> = pods
        .into_iter()
        .filter_map(|pod| pod.endpoint.clone())
        .collect();
    some_alive(endpoints)
}

fn some_alive(endpoints: Vec<String>) -> anyhow::Result<Vec<String>> {
    if endpoints.is_empty() {
        return Err(coded(
            UNAVAILABLE,
            "no brain is alive: start one (`brain`), or name one with --brain; `lease pods` shows who was there. Some verbs have a --force that needs none",
        ));
    }
    Ok(endpoints)
}

/// What was asked of a brain, for the words about its failure.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// How one learns whether it was done.
    pub(crate) unknown: &'a str,
}

impl Brains {
    /// Asks one brain after the other, until one has answered. One that did nothing, for it is gone or has not read the
    /// store yet, is left for the next; where it is not known what one did, no other is asked.
    pub(crate) async fn ask<T, F>(
        &self,
        what: Asked<'_>,
        mut call: impl FnMut(BrainClient) -> F,
    ) -> anyhow::Result<(BrainClient, T)>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let mut last = None;
        for brain in &self.0 {
            match call(brain.clone()).await {
                Ok(answer) => return Ok((brain.clone(), answer)),
                Err(error) if did_nothing(&error) => last = Some(error),
                Err(error) => return Err(what.failed(&error)),
            }
        }
        Err(match last {
            Some(error) => what.failed(&error),
            None => coded(UNAVAILABLE, "no brain is alive"),
        })
    }
}

fn did_nothing(error: &CallError) -> bool {
    match error {
        CallError::Unreachable { .. } => true,
        CallError::Refused { problem, .. } => {
            [Problem::UNKNOWN, Problem::DRAINING, Problem::TOO_MANY]
                .contains(&problem.code.as_str())
        }
        _ => false,
    }
}

impl Asked<'_> {
    fn failed(self, error: &CallError) -> anyhow::Error {
        let (code, cure) = match error {
            CallError::Unreachable { .. } => (
                UNAVAILABLE,
                "; nothing was done: start it, or name another with --brain",
            ),
            CallError::Unknown { .. } => (UNAVAILABLE, "; it may have been done: "),
            CallError::NoBrain { .. } => (
                UNAVAILABLE,
                ": name a brain with --brain, as `lease pods` shows them",
            ),
            CallError::Setup(_) => (INVALID, ""),
            CallError::Refused { problem, .. } => match problem.code.as_str() {
                Problem::FORBIDDEN => (
                    INVALID,
                    "; the token of LEASE_INTERNAL_TOKEN or --internal-token-file goes with that brain's own",
                ),
                Problem::UNKNOWN_TOKEN => (LOST, ""),
                Problem::UNKNOWN_POD => (INVALID, ": `lease pods` shows them"),
                Problem::BAD_REQUEST => (USAGE, ""),
                Problem::BUSY => (BUSY, ""),
                Problem::LOST => (LOST, "; the next call opens a new session"),
                Problem::UNDEFINED | Problem::INVALID | Problem::NO_TOOLS | Problem::NO_TEX => {
                    (INVALID, "")
                }
                Problem::CALL_REFUSED => (1, ""),
                Problem::CALL_UNKNOWN => (UNAVAILABLE, "; look before you repeat it"),
                _ => (UNAVAILABLE, ""),
            },
        };
        let more = match error {
            CallError::Unknown { .. } => self.unknown,
            _ => "",
        };
        // What it says of a lease that is not there is the whole answer.
        let said = match error {
            CallError::Refused { problem, .. } if problem.code == Problem::UNKNOWN_TOKEN => {
                problem.message.clone()
            }
            error => error.to_string(),
        };
        coded(code, format!("{said}{cure}{more}"))
    }
}

/// Asks about a job until it has ended, and shows how far it is where that takes longer than a moment.
pub(crate) async fn follow(
    brain: &BrainClient,
    job: &JobStarted,
    mut show: impl FnMut(&JobProgress),
) -> anyhow::Result<JobProgress> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(50);
    loop {
        let progress = brain.job(job).await.map_err(|error| {
            let problem = format!(
                "what the job did is unknown, and to repeat it is safe: it was begun, and then: {error}"
            );
            coded(UNAVAILABLE, problem)
        })?;
        if progress.done {
            return Ok(progress);
        }
        if begun.elapsed() >= MOMENT {
            show(&progress);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}
