//! The files of a document: bounded, with paths that stay inside.

mod archive;
mod directory;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::error::SourcesError;
use crate::text::one_line;

/// Folders within folders, and characters of a path: enough for people.
const DEPTH: usize = 16;
const PATH_LENGTH: usize = 1024;
const NAME_LENGTH: usize = 255;

/// How much a document may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a zip file.
    pub zip_bytes: u64,
    /// Bytes of all files together, unpacked.
    pub total_bytes: u64,
    /// Files; folders count.
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            zip_bytes: 20 << 20,
            total_bytes: 50 << 20,
            files: 2000,
        }
    }
}

/// The files of a document, in memory. Cheap to clone.
#[derive(Clone)]
pub struct Sources {
    files: BTreeMap<String, Arc<[u8]>>,
}

impl Sources {
    /// Unpacks a zip file. Blocks while it does.
    ///
    /// # Errors
    /// It is no zip file, larger than `limits`, or has an entry that is no plain file with a path inside.
    pub fn from_zip(bytes: &[u8], limits: Limits) -> Result<Self, SourcesError> {
        archive::read(bytes, limits)
    }

    /// Reads a folder with all below; what is hidden (`.git`) is left out. Blocks while it does.
    ///
    /// # Errors
    /// It cannot be read, is larger than `limits`, or holds something that is neither file nor folder.
    pub fn from_directory(path: &Path, limits: Limits) -> Result<Self, SourcesError> {
        directory::read(path, limits)
    }

    /// As a zip file. Blocks while it packs.
    ///
    /// # Errors
    /// It does not fit into one.
    pub fn to_zip(&self) -> Result<Vec<u8>, SourcesError> {
        archive::write(self)
    }

    /// The paths and contents of the files, by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files
            .iter()
            .map(|(path, bytes)| (path.as_str(), &bytes[..]))
    }

    /// What is below a folder, with the paths from there.
    pub(crate) fn below(&self, folder: Option<&str>) -> Self {
        let Some(folder) = folder else {
            return self.clone();
        };
        let rest = |path: &str| Some(path.strip_prefix(folder)?.strip_prefix('/')?.to_owned());
        let below = self
            .files
            .iter()
            .filter_map(|(path, bytes)| Some((rest(path)?, bytes.clone())));
        Self {
            files: below.collect(),
        }
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }
}

/// Shows the paths only.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.files.keys()).finish()
    }
}

/// Sources that are being read.
struct Collector {
    limits: Limits,
    files: BTreeMap<String, Arc<[u8]>>,
    folders: BTreeSet<String>,
    entries: usize,
    bytes: u64,
}

impl Collector {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
            entries: 0,
            bytes: 0,
        }
    }

    /// Counts one more entry, file or folder.
    fn count(&mut self) -> Result<(), SourcesError> {
        self.entries += 1;
        if self.entries > self.limits.files {
            return Err(SourcesError::TooMany {
                limit: self.limits.files,
            });
        }
        Ok(())
    }

    /// How many bytes to read of the next file, to know whether it is too large.
    fn appetite(&self) -> u64 {
        (self.limits.total_bytes - self.bytes).saturating_add(1)
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) -> Result<(), SourcesError> {
        check_path(&path)?;
        self.bytes += bytes.len() as u64;
        if self.bytes > self.limits.total_bytes {
            return Err(SourcesError::TooLarge {
                limit: self.limits.total_bytes,
            });
        }
        let folders = path
            .match_indices('/')
            .map(|(end, _)| path[..end].to_owned());
        self.folders.extend(folders);
        match self.files.entry(path) {
            Entry::Occupied(other) => Err(SourcesError::Twice {
                path: one_line(other.key()),
            }),
            Entry::Vacant(place) => {
                place.insert(bytes.into());
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<Sources, SourcesError> {
        let both = self.files.keys().find(|it| self.folders.contains(*it));
        if let Some(path) = both {
            return Err(SourcesError::Twice {
                path: one_line(path),
            });
        }
        Ok(Sources { files: self.files })
    }
}

/// Whether a path stays inside, and is no more than a path to anyone who may read it: to TeX and latexmk, which hand it on
/// to shells.
pub(crate) fn check_path(path: &str) -> Result<(), SourcesError> {
    let refuse = |why| {
        let path = one_line(path);
        Err(SourcesError::Path { path, why })
    };
    if path.len() > PATH_LENGTH || path.split('/').any(|it| it.len() > NAME_LENGTH) {
        return refuse("it is too long");
    }
    if path.split('/').count() > DEPTH {
        return refuse("it has too many folders");
    }
    if path.starts_with('/') {
        return refuse("it is absolute");
    }
    if path
        .chars()
        .any(|it| it.is_control() || "\\\"'$`".contains(it))
    {
        return refuse("it has a control character, \\, \", ', $ or ` in it");
    }
    for name in path.split('/') {
        match name {
            ".." => return refuse("it leads outside"),
            "" | "." => return refuse("it has an empty part"),
            _ if name.starts_with('-') => return refuse("a part begins with -"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_and_mean_nothing_else() {
        for good in [
            "a",
            "a/b.c",
            "a b/ü (1).tex",
            "..a/b..",
            ".latexmkrc",
            "A/a",
            "~x",
        ] {
            assert!(check_path(good).is_ok(), "{good}");
        }
        let bad = [
            ("", "empty"),
            ("/etc/passwd", "absolute"),
            ("../a", "outside"),
            ("a/../../b", "outside"),
            ("a/..", "outside"),
            ("a//b", "empty"),
            ("./a", "empty"),
            ("a/", "empty"),
            ("a\\b", "\\"),
            ("C:\\a", "\\"),
            ("a\0", "control"),
            ("a\nb", "control"),
            ("\u{1b}[2J", "control"),
            ("-rf", "begins with -"),
            ("a/-e", "begins with -"),
            ("$(id).idx", "$"),
            ("`id`", "`"),
            ("a\";id;\"", "\""),
            ("a';id;'.eps", "'"),
        ];
        for (path, why) in bad {
            let error = check_path(path).unwrap_err().to_string();
            assert!(error.contains(why), "{path:?}: {error}");
        }
        assert!(
            check_path(&"a/".repeat(16))
                .unwrap_err()
                .to_string()
                .contains("folders")
        );
        assert!(
            check_path(&"a".repeat(256))
                .unwrap_err()
                .to_string()
                .contains("long")
        );
    }
}
