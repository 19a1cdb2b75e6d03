//! The observer, who knows nothing of leases: a file in which every process writes when it enters and leaves.

use std::collections::BTreeMap;
use std::path::Path;

use tempfile::NamedTempFile;

/// Lines `+ tenant project user` and `- tenant project user`, in the order in which they were written.
pub(crate) struct Journal(NamedTempFile);

/// How many were inside at most, per scope: global, tenant, project, user.
pub(crate) type Most = BTreeMap<String, usize>;

impl Journal {
    pub(crate) fn new() -> Self {
        Self(NamedTempFile::new().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Reads it all: how many entered, and how many were inside together at most. In the end everybody has left.
    pub(crate) fn read(&self) -> (usize, Most) {
        let text = std::fs::read_to_string(self.path()).unwrap();
        let mut inside: BTreeMap<String, usize> = BTreeMap::new();
        let mut most = Most::new();
        let mut entered = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [sign, tenant, project, user] = words[..] else {
                panic!("a torn line: {line:?}");
            };
            entered += usize::from(sign == "+");
            for scope in [
                "global".to_owned(),
                format!("tenant {tenant}"),
                format!("project {tenant}/{project}"),
                format!("user {tenant}/{user}"),
            ] {
                let now = inside.entry(scope.clone()).or_default();
                match sign {
                    "+" => *now += 1,
                    _ => *now -= 1,
                }
                let most = most.entry(scope).or_default();
                *most = (*most).max(*now);
            }
        }
        assert!(inside.values().all(|inside| *inside == 0), "{inside:?}");
        (entered, most)
    }
}
