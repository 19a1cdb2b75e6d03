use lease_shared::{PodId, is_transient};
use mongodb::error::{Error, ErrorKind, WriteFailure};

use super::settings::InvalidPodSettings;

/// Why a pod could not join, stay or be looked at.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// The settings cannot work.
    #[error(transparent)]
    Settings(#[from] InvalidPodSettings),
    /// Another pod has this node name, and lives.
    #[error("{0}: stop that one, or start this one under another --node-name")]
    NodeNameInUse(Box<Claimant>),
    /// Another pod took this node name while this one was silent. This one must not go on under it.
    #[error(
        "another pod took this node name while this one was silent: {0}; start this one anew under another --node-name"
    )]
    NodeNameTaken(Box<Claimant>),
    /// The row of the pod that has this node name cannot be judged.
    #[error(
        "the node name {node_name:?} is kept by a row of brain_pods that cannot be read: {problem}; remove that row"
    )]
    Unreadable {
        /// The name.
        node_name: String,
        /// Which row, and what is wrong with it.
        problem: String,
    },
    /// The store did not do what was asked, or did not say so with certainty.
    #[error("could not {step}")]
    Store {
        /// What was being done, as an infinitive.
        step: &'static str,
        /// What went wrong.
        #[source]
        cause: PodStoreError,
    },
}

/// The pod that has a node name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "node name {node_name:?} of cluster {cluster_id:?} is that of pod {pod} at {endpoint}, which is alive"
)]
pub struct Claimant {
    /// The cluster.
    pub cluster_id: String,
    /// The name.
    pub node_name: String,
    /// The pod that has it.
    pub pod: PodId,
    /// Where that one says it is.
    pub endpoint: String,
}

/// What the store answered, or that it did not.
#[derive(Debug, thiserror::Error)]
pub enum PodStoreError {
    /// The driver's error. The driver prints its kind, labels and the whole topology; people need one line.
    #[error("{}", in_one_line(.0))]
    Driver(Box<Error>),
    /// No answer within the time that a round trip has. It may have been done or not.
    #[error("the server did not answer in time")]
    Deadline,
    /// The server answered with something else than a row.
    #[error("{0}")]
    Malformed(String),
}

impl PodError {
    /// Is no server reachable at all?
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Store {
                cause: PodStoreError::Driver(error),
                ..
            } => matches!(*error.kind, ErrorKind::ServerSelection { .. }),
            _ => false,
        }
    }
}

impl PodError {
    /// Can the same, tried again later, have another outcome without anybody mending anything?
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store { cause, .. } => self.is_unreachable() || cause.is_unknown(),
            _ => false,
        }
    }
}

impl PodStoreError {
    /// May the write have been done all the same, or be done by another try?
    pub(super) fn is_unknown(&self) -> bool {
        match self {
            Self::Deadline => true,
            Self::Malformed(_) => false,
            Self::Driver(error) => match error.kind.as_ref() {
                ErrorKind::Write(WriteFailure::WriteConcernError(_)) => true,
                ErrorKind::ServerSelection { .. } => false,
                _ => is_transient(error),
            },
        }
    }

    /// Did the index on the node name refuse it?
    pub(super) fn is_duplicate(&self) -> bool {
        const DUPLICATE_KEY: i32 = 11000;
        match self {
            Self::Driver(error) => match error.kind.as_ref() {
                ErrorKind::Command(command) => command.code == DUPLICATE_KEY,
                ErrorKind::Write(WriteFailure::WriteError(write)) => write.code == DUPLICATE_KEY,
                _ => false,
            },
            Self::Deadline | Self::Malformed(_) => false,
        }
    }
}

fn in_one_line(error: &Error) -> String {
    match error.kind.as_ref() {
        ErrorKind::ServerSelection { .. } => "no MongoDB primary can be reached".to_owned(),
        ErrorKind::Command(command) => format!("{} (code {})", command.message, command.code),
        ErrorKind::Io(io) => format!("connection: {io}"),
        ErrorKind::ConnectionPoolCleared { .. } => {
            "the connection was cut because its server stopped answering".to_owned()
        }
        kind => kind.to_string(),
    }
}
