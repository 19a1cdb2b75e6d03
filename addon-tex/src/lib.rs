#![doc = include_str!("../README.md")]

mod compiler;
mod error;
mod job;
mod local;
mod remote;
mod sources;
mod text;

pub use compiler::{Executor, TexCompiler};
pub use error::{BoxError, RemoteError, RemoteFailure, SourcesError, TexError};
pub use job::{Engine, MainFile, Progress, TexJob, TexResult};
pub use local::LocalExecutor;
pub use remote::{ApiKeySource, RemoteExecutor};
pub use reqwest::Url;
pub use sources::{Limits, Sources};
