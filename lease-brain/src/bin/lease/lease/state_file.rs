//! The file that tells a command under a lease how its lease stands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tempfile::TempDir;

/// In a folder of its own that only this user can read; gone when this is dropped.
pub(crate) struct StateFile {
    folder: TempDir,
    path: PathBuf,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct State<'a> {
    token: Option<&'a str>,
    resource: Option<&'a str>,
    state: &'a str,
    checked_at: String,
    expires_at: Option<String>,
}

impl StateFile {
    pub(crate) fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("lease-").tempdir()?;
        let path = folder.path().join("state.json");
        Ok(Self { folder, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Rewrites the file in one step, so that a reader sees the old state or the new one. The times are this machine's.
    #[expect(
        clippy::disallowed_methods,
        reason = "for a reader on this machine; nothing is decided by it"
    )]
    pub(crate) fn write(
        &self,
        lease: &lease_shared::Lease,
        state: &str,
        expires_in: Option<Duration>,
    ) -> io::Result<()> {
        let now = Timestamp::now();
        let expires_at = expires_in.and_then(|left| now.checked_add(left).ok());
        let state = State {
            token: lease.token().map(|token| token.as_str()),
            resource: lease.resource().map(|resource| resource.as_str()),
            state,
            checked_at: now.to_string(),
            expires_at: expires_at.map(|time| time.to_string()),
        };
        let next = self.folder.path().join("next.json");
        fs::write(&next, serde_json::to_vec(&state)?)?;
        fs::rename(next, &self.path)
    }
}
