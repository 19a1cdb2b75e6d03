//! The options of `brain`, a section for each concern, each resolved to settings in which nothing is missing.
//!
//! Every option has an environment variable. What clap cannot judge by itself (a combination, a file, a token's length)
//! is judged by [`BrainArgs::resolve`], before a port is opened or a server is asked.

mod cluster;
mod http;
mod insights;
mod lease;
mod mongo;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use humantime::format_duration;

pub use cluster::{ClusterArgs, ClusterSettings, NodeName};
pub use http::{Advertise, HttpArgs, HttpSettings, internal_token};
pub use insights::InsightsArgs;
pub use lease::{LeaseArgs, LeaseSettings};
pub use mongo::{DocumentsAt, InvalidMongo, MongoArgs};

use crate::access::{Access, InvalidSecret, UnusableJwks};
use crate::cluster::InvalidPodSettings;

/// A duration as people write it.
///
/// # Errors
/// What is wrong with it, and what one looks like.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it like `2h 30m`"))
}

/// The same, to be shown as it is written.
fn shown_duration(text: &str) -> Result<humantime::Duration, String> {
    duration(text).map(humantime::Duration::from)
}

/// Everything that `brain` can be told.
#[derive(Args, Clone)]
pub struct BrainArgs {
    #[command(flatten)]
    mongo: MongoArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    insights: InsightsArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    lease: LeaseArgs,
}

/// What `brain` runs with.
#[derive(Clone)]
pub struct BrainSettings {
    /// Where the state is.
    pub mongo: MongoArgs,
    /// Where it is reached.
    pub http: HttpSettings,
    /// Who verifies the tokens of tenants; without it, they see nothing here.
    pub access: Option<Access>,
    /// How it stands among the others.
    pub cluster: ClusterSettings,
    /// How it treats leases.
    pub lease: LeaseSettings,
}

impl BrainArgs {
    /// Reads what is named by files, and judges what stands together.
    ///
    /// # Errors
    /// The first thing that cannot work, in one line with the cure.
    pub fn resolve(self) -> Result<BrainSettings, InvalidArgs> {
        let settings = BrainSettings {
            mongo: self.mongo.resolve()?,
            http: self.http.resolve()?,
            access: self.insights.resolve()?,
            cluster: self.cluster.resolve()?,
            lease: self.lease.resolve()?,
        };
        // Whatever the port will be, what is wrong with the rest can be said now.
        let listen = settings.http.listen;
        let endpoint = settings.http.endpoint(listen);
        settings.cluster.pod(endpoint, listen.port())?;
        Ok(settings)
    }
}

/// Options that cannot work, with the cure.
#[derive(Debug, thiserror::Error)]
pub enum InvalidArgs {
    /// What the others would see of this pod.
    #[error("--{0}")]
    Pod(InvalidPodSettings),
    /// There is no telling at which of its addresses others reach it.
    #[error(
        "--listen {0} is every address of this machine: say with --advertise at which URL the other pods reach this one"
    )]
    Wildcard(SocketAddr),
    /// There are two tokens, and no telling which is meant.
    #[error(
        "the internal token is given twice, as LEASE_INTERNAL_TOKEN and as a file (--internal-token-file or \
         LEASE_INTERNAL_TOKEN_FILE): keep one"
    )]
    TwoTokens,
    /// A token that can be guessed. It is not shown.
    #[error(
        "{option} has {length} bytes: it must have at least 16, as from `openssl rand -hex 16`"
    )]
    ShortToken {
        /// Where it came from.
        option: String,
        /// How long it is.
        length: usize,
    },
    /// A token that no header can carry. It is not shown.
    #[error(
        "{option} must have letters, digits and punctuation of ASCII only, as from `openssl rand -hex 16`"
    )]
    OddToken {
        /// Where it came from.
        option: String,
    },
    /// It is something else.
    #[error(
        "--internal-token-file {} has more than 64 KiB: make a secret with `openssl rand -hex 16`", .0.display()
    )]
    LongToken(PathBuf),
    /// The token's file cannot be read.
    #[error("--internal-token-file {}", path.display())]
    TokenFile {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// There are two kinds of keys, and a token must be verified by those that are meant.
    #[error(
        "what verifies tokens is given twice, as --jwt-secret-file (LEASE_JWT_SECRET_FILE) and as --jwt-jwks \
         (LEASE_JWT_JWKS): keep one"
    )]
    TwoKeys,
    /// The secret of tokens cannot be used.
    #[error("--jwt-secret-file {0}")]
    JwtSecret(InvalidSecret),
    /// The keys of tokens cannot be used.
    #[error("--jwt-jwks {0}")]
    Jwks(UnusableJwks),
    /// What no token could match.
    #[error("{0} is empty: leave it out, or say what tokens have")]
    Empty(&'static str),
    /// The same label twice.
    #[error("--labels has {0:?} twice: keep one")]
    TwoLabels(String),
    /// There are no documents to be had there.
    #[error("--documents dir:{} is no directory: create it, or leave the option out", .0.display())]
    NoDocumentsDir(PathBuf),
    /// The MongoDB cannot be told from what is said of it.
    #[error(transparent)]
    Mongo(#[from] InvalidMongo),
    /// There are no secrets to be had there.
    #[error("--secrets-dir {} is no directory: create it, or leave the option out", .0.display())]
    NoSecretsDir(PathBuf),
    /// No document could be compiled there.
    #[error("--tex-scratch-dir {} is no directory: create it, or leave the option out", .0.display())]
    NoScratchDir(PathBuf),
    /// A time in which nothing would happen, or nothing but that.
    #[error("--{option} \"{}\" must be {rule}; {usual} is usual", format_duration(*value))]
    Time {
        /// Which one, for example `drain`.
        option: &'static str,
        /// What it was set to.
        value: Duration,
        /// What it must be.
        rule: &'static str,
        /// What it is without being set.
        usual: &'static str,
    },
}

impl From<InvalidPodSettings> for InvalidArgs {
    fn from(invalid: InvalidPodSettings) -> Self {
        Self::Pod(invalid)
    }
}

#[cfg(test)]
mod tests;
