//! The observer's journal: each command writes when it enters and when it leaves, under a file lock. It knows nothing of
//! leases but the token, which names a line and proves nothing.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// A file of JSON lines.
pub(crate) struct Journal {
    path: PathBuf,
}

/// One line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) event: Event,
    pub(crate) entry: Entry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Event {
    Enter,
    Leave,
    /// It was killed inside; written by the killer.
    Gone,
}

/// Who is inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) token: String,
    pub(crate) tenant: String,
    pub(crate) project: String,
    pub(crate) user: String,
    pub(crate) contender: usize,
    pub(crate) slot: usize,
    pub(crate) pid: i32,
    pub(crate) guardian: i32,
}

impl Entry {
    pub(crate) fn who(&self) -> String {
        format!("{}/{}/{}", self.tenant, self.project, self.user)
    }

    pub(crate) fn enter(&self) -> Line {
        self.line(Event::Enter)
    }

    pub(crate) fn leave(&self) -> Line {
        self.line(Event::Leave)
    }

    pub(crate) fn gone(&self) -> Line {
        self.line(Event::Gone)
    }

    fn line(&self, event: Event) -> Line {
        Line {
            event,
            entry: self.clone(),
        }
    }
}

impl Journal {
    pub(crate) fn create(path: PathBuf) -> Result<Self> {
        File::create_new(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self { path })
    }

    pub(crate) fn open(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Nobody else writes until the lock is dropped.
    pub(crate) fn lock(&self) -> Result<Locked> {
        let file = OpenOptions::new().append(true).open(&self.path)?;
        file.lock()?;
        Ok(Locked(file))
    }

    pub(crate) fn read(&self) -> Result<Vec<Line>> {
        let text = std::fs::read_to_string(&self.path)?;
        // A line that is being written at this moment has no end yet.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }
}

/// The journal, for one writer.
pub(crate) struct Locked(File);

impl Locked {
    pub(crate) fn append(&self, line: &Line) -> Result<()> {
        let text = format!("{}\n", serde_json::to_string(line)?);
        Ok((&self.0).write_all(text.as_bytes())?)
    }
}
