use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::InvalidArgs;
use crate::brain::BrainBuilder;

/// How the brain treats leases.
#[derive(Args, Clone)]
#[command(next_help_heading = "Leases")]
pub struct LeaseArgs {
    /// How often it looks for leases that are idle, or whose pod is dead. Too small, and the sweeps of many pods are
    /// load on MongoDB and nothing else; too large, and the slots of the dead come back late.
    #[arg(
        long,
        env = "LEASE_REAP_INTERVAL",
        value_name = "DURATION",
        default_value_t = BrainBuilder::REAP_INTERVAL.into(),
        value_parser = super::shown_duration
    )]
    reap_interval: humantime::Duration,
    /// How often it compares all counters with their holders, frees what nobody holds and removes empty counters. Too
    /// small, and it reads every counter again and again; too large, and slots that a crash left without a holder come
    /// back late where nobody waits for them.
    #[arg(
        long,
        env = "LEASE_RECONCILE_INTERVAL",
        value_name = "DURATION",
        default_value_t = BrainBuilder::RECONCILE_INTERVAL.into(),
        value_parser = super::shown_duration
    )]
    reconcile_interval: humantime::Duration,
    /// How long the first signal to stop lets clean-ups run on. Too small, and they are cut off, to be begun anew by
    /// another brain a minute later; too large, and whoever started this one kills it before it is done.
    #[arg(
        long,
        env = "LEASE_DRAIN",
        value_name = "DURATION",
        default_value_t = BrainBuilder::DRAIN.into(),
        value_parser = super::shown_duration
    )]
    drain: humantime::Duration,
    /// Where the secrets are that documents name: PATH/TENANT/PROJECT/NAME.
    #[arg(long, env = "LEASE_SECRETS_DIR", value_name = "PATH")]
    secrets_dir: Option<PathBuf>,
    /// Where TeX documents are compiled, a folder each, removed at its end [default: the system's place for such].
    #[arg(long, env = "LEASE_TEX_SCRATCH_DIR", value_name = "PATH")]
    tex_scratch_dir: Option<PathBuf>,
    /// Compile TeX documents also where the kernel cannot confine latexmk (Landlock, Linux 5.13). A document can then read
    /// what this process can.
    #[arg(long, env = "LEASE_TEX_ALLOW_UNCONFINED")]
    tex_allow_unconfined: bool,
    /// Let the documents of tenants and projects name commands to execute. Whoever may write such a document may then
    /// run anything as this process's user.
    #[arg(long, env = "LEASE_ALLOW_PROJECT_COMMANDS")]
    allow_project_commands: bool,
}

/// How the brain treats leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// How often it sweeps.
    pub reap_interval: Duration,
    /// How often it reconciles.
    pub reconcile_interval: Duration,
    /// How long a drain may take.
    pub drain: Duration,
    /// Where the secrets are; without it there are none but those of the environment.
    pub secrets_dir: Option<PathBuf>,
    /// Where TeX documents are compiled; without it, in the system's place for such.
    pub tex_scratch_dir: Option<PathBuf>,
    /// Compile TeX documents also where the kernel cannot confine latexmk?
    pub tex_allow_unconfined: bool,
    /// May the documents of tenants and projects name commands to execute?
    pub allow_project_commands: bool,
}

/// The bounds of a time that somebody may have meant.
struct Bounds {
    option: &'static str,
    of: fn(&LeaseArgs) -> Duration,
    least: (Duration, &'static str),
    most: (Duration, &'static str),
    usual: &'static str,
}

const OFTEN: (Duration, &str) = (Duration::from_millis(100), "at least 100ms");
const A_DAY: (Duration, &str) = (Duration::from_secs(24 * 3600), "at most 1day");
const A_MONTH: (Duration, &str) = (Duration::from_secs(30 * 24 * 3600), "at most 30days");

const TIMES: [Bounds; 3] = [
    Bounds {
        option: "reap-interval",
        of: |args| args.reap_interval.into(),
        least: OFTEN,
        most: A_DAY,
        usual: "30s",
    },
    Bounds {
        option: "reconcile-interval",
        of: |args| args.reconcile_interval.into(),
        least: OFTEN,
        most: A_MONTH,
        usual: "5m",
    },
    Bounds {
        option: "drain",
        of: |args| args.drain.into(),
        least: (Duration::ZERO, ""),
        most: A_DAY,
        usual: "25s",
    },
];

impl Bounds {
    fn check(&self, args: &LeaseArgs) -> Result<(), InvalidArgs> {
        let value = (self.of)(args);
        let rule = match value {
            _ if value < self.least.0 => self.least.1,
            _ if value > self.most.0 => self.most.1,
            _ => return Ok(()),
        };
        Err(InvalidArgs::Time {
            option: self.option,
            value,
            rule,
            usual: self.usual,
        })
    }
}

impl LeaseArgs {
    pub(super) fn resolve(self) -> Result<LeaseSettings, InvalidArgs> {
        TIMES.iter().try_for_each(|time| time.check(&self))?;
        if let Some(path) = self.secrets_dir.as_ref().filter(|path| !path.is_dir()) {
            return Err(InvalidArgs::NoSecretsDir(path.clone()));
        }
        if let Some(path) = self.tex_scratch_dir.as_ref().filter(|path| !path.is_dir()) {
            return Err(InvalidArgs::NoScratchDir(path.clone()));
        }
        Ok(LeaseSettings {
            reap_interval: self.reap_interval.into(),
            reconcile_interval: self.reconcile_interval.into(),
            drain: self.drain.into(),
            secrets_dir: self.secrets_dir,
            tex_scratch_dir: self.tex_scratch_dir,
            tex_allow_unconfined: self.tex_allow_unconfined,
            allow_project_commands: self.allow_project_commands,
        })
    }
}
