//! The file that tells a command under a lease how its lease stands.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use supervise::BootInstant;
use tempfile::TempDir;

/// In a folder of its own that only this user can read; gone when this is dropped.
pub(crate) struct StateFile {
    folder: TempDir,
    path: PathBuf,
}

/// How a lease stands, for the command under it.
pub(crate) struct Standing {
    /// `held`, `unconfirmed` (the last check got no answer), `lost` or `noop`.
    pub(crate) state: &'static str,
    /// When the last check that succeeded was sent, and how long the lease lives from then; nothing where it has no
    /// end, or it has come.
    pub(crate) confirmed: Option<(BootInstant, Duration)>,
}

impl Standing {
    pub(crate) fn without_end(state: &'static str) -> Self {
        let confirmed = None;
        Self { state, confirmed }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct State<'a> {
    token: Option<&'a str>,
    resource: Option<&'a str>,
    state: &'a str,
    checked_at: Option<String>,
    expires_at: Option<String>,
}

impl StateFile {
    pub(crate) fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("lease-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir()?;
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
    pub(crate) fn write(&self, lease: &lease_shared::Lease, standing: Standing) -> io::Result<()> {
        let (now, boot) = (Timestamp::now(), BootInstant::now());
        let times = standing.confirmed.and_then(|(sent, ttl)| {
            let checked_at = now.checked_sub(boot - sent).ok()?;
            Some((checked_at, checked_at.checked_add(ttl).ok()?))
        });
        let state = State {
            token: lease.token().map(|token| token.as_str()),
            resource: lease.resource().map(|resource| resource.as_str()),
            state: standing.state,
            checked_at: times.map(|(checked_at, _)| checked_at.to_string()),
            expires_at: times.map(|(_, expires_at)| expires_at.to_string()),
        };
        let next = self.folder.path().join("next.json");
        fs::write(&next, serde_json::to_vec(&state)?)?;
        fs::rename(next, &self.path)
    }
}
