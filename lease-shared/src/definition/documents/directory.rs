use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{DocumentAddress, DocumentStoreError};

/// What stands in a file's name as it is: letters, digits, `-`, `_`, and `.` except as the first character.
const FILE_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
/// The largest file that is read: a document is configuration, not data.
const MAX_BYTES: u64 = 1024 * 1024;

/// Documents as files `<root>/<tenant>/<project>/<path>`, for example a git checkout or a mounted ConfigMap.
///
/// Each segment is percent-encoded, a leading dot too, so that no name leaves the root or meets the file system's own
/// (`..data`, `.git`). Symbolic links are followed; a write replaces one. A name too long for the file system is
/// absent when read and refused when written. On a file system that ignores case, tenants that differ in case only
/// share their files.
///
/// A root that is missing or unreadable fails every call: a mount that went away must not lift caps. (Let the root be
/// a folder *in* the mount, not the mount point, which stays behind empty.)
#[derive(Debug, Clone)]
pub struct DirectoryDocuments {
    root: PathBuf,
}

impl DirectoryDocuments {
    /// Documents below `root`. Reads nothing yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(super) async fn get_all(
        &self,
        addresses: &[DocumentAddress],
    ) -> Result<Vec<Option<String>>, DocumentStoreError> {
        let addresses = addresses.to_vec();
        self.blocking("read documents", move |this| {
            this.check_root()?;
            let texts = addresses
                .iter()
                .map(|address| this.read(address))
                .collect::<Result<Vec<_>, _>>()?;
            if texts.contains(&None) {
                // Absent is only what a root that is still there does not have.
                this.check_root()?;
            }
            Ok(texts)
        })
        .await
    }

    pub(super) async fn put(
        &self,
        address: &DocumentAddress,
        text: &str,
    ) -> Result<(), DocumentStoreError> {
        let (address, text) = (address.clone(), text.to_owned());
        self.blocking("write a document", move |this| {
            this.check_root()?;
            this.write(&address, &text)
                .map_err(|source| failed(format!("write document {address}"), source))
        })
        .await
    }

    pub(super) async fn remove(
        &self,
        address: &DocumentAddress,
    ) -> Result<bool, DocumentStoreError> {
        let address = address.clone();
        self.blocking("remove a document", move |this| {
            this.check_root()?;
            match fs::remove_file(this.file(&address)) {
                Ok(()) => Ok(true),
                Err(error) if is_absence(&error) => Ok(false),
                Err(source) => Err(failed(format!("remove document {address}"), source)),
            }
        })
        .await
    }

    pub(super) async fn list(
        &self,
        tenant: Option<&str>,
        project: Option<&str>,
    ) -> Result<Vec<DocumentAddress>, DocumentStoreError> {
        let (tenant, project) = (tenant.map(str::to_owned), project.map(str::to_owned));
        self.blocking("list documents", move |this| {
            this.check_root()?;
            let mut found = Vec::new();
            this.walk(&this.root, &mut Vec::new(), &mut found)?;
            found.retain(|address| {
                tenant
                    .as_ref()
                    .is_none_or(|wanted| address.tenant() == wanted)
                    && project
                        .as_ref()
                        .is_none_or(|wanted| address.project() == wanted)
            });
            found.sort();
            Ok(found)
        })
        .await
    }

    /// File systems have no asynchronous calls. A dropped caller lets `work` finish.
    async fn blocking<T: Send + 'static>(
        &self,
        action: &str,
        work: impl FnOnce(&Self) -> Result<T, DocumentStoreError> + Send + 'static,
    ) -> Result<T, DocumentStoreError> {
        let this = self.clone();
        match tokio::task::spawn_blocking(move || work(&this)).await {
            Ok(result) => result,
            Err(ended) => Err(failed(action.to_owned(), io::Error::other(ended))),
        }
    }

    fn check_root(&self) -> Result<(), DocumentStoreError> {
        fs::read_dir(&self.root).map(drop).map_err(|source| {
            let root = self.root.display();
            failed(format!("open the documents' root {root}"), source)
        })
    }

    /// The file of the document at `address`, whether it is there or not.
    pub fn file(&self, address: &DocumentAddress) -> PathBuf {
        let mut file = self.root.clone();
        file.push(encoded(address.tenant()));
        file.push(encoded(address.project()));
        file.extend(address.path().split('/').map(encoded));
        file
    }

    fn read(&self, address: &DocumentAddress) -> Result<Option<String>, DocumentStoreError> {
        let file = self.file(address);
        let failed = |source| failed(format!("read document {address}"), source);
        let metadata = match fs::metadata(&file) {
            Ok(metadata) => metadata,
            Err(error) if is_absence(&error) => {
                return match self.dangling_link(&file) {
                    None => Ok(None),
                    Some(link) => {
                        let problem = format!("{} is a link to nothing", link.display());
                        Err(failed(io::Error::new(ErrorKind::NotFound, problem)))
                    }
                };
            }
            Err(error) => return Err(failed(error)),
        };
        // Not only folders: opening a pipe would wait for its writer.
        if !metadata.is_file() {
            let problem = format!("{} is not a file", file.display());
            return Err(failed(io::Error::other(problem)));
        }
        let mut text = String::new();
        let read =
            File::open(&file).and_then(|open| open.take(MAX_BYTES + 1).read_to_string(&mut text));
        match read {
            Ok(bytes) if bytes as u64 <= MAX_BYTES => Ok(Some(text)),
            Ok(_) => Err(failed(too_large())),
            Err(error) => Err(failed(error)),
        }
    }

    /// A symbolic link on the way to an absent `file` that leads nowhere: then the file is not known to be absent.
    fn dangling_link(&self, file: &Path) -> Option<PathBuf> {
        let mut above: Vec<_> = file
            .ancestors()
            .take_while(|path| *path != self.root)
            .collect();
        above.reverse();
        let missing = above.into_iter().find(|path| fs::metadata(path).is_err())?;
        fs::symlink_metadata(missing)
            .is_ok_and(|metadata| metadata.is_symlink())
            .then(|| missing.to_owned())
    }

    /// Writes beside the file and renames, so that a reader sees the old text or the new one.
    fn write(&self, address: &DocumentAddress, text: &str) -> io::Result<()> {
        if text.len() as u64 > MAX_BYTES {
            return Err(too_large());
        }
        let file = self.file(address);
        let folder = file.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder)?;
        // A name that no document has.
        let beside = folder.join(format!(".put-{}", uuid::Uuid::new_v4().simple()));
        let written = File::create_new(&beside)
            .and_then(|mut open| {
                open.write_all(text.as_bytes())?;
                open.sync_all()
            })
            .and_then(|()| fs::rename(&beside, &file))
            .and_then(|()| File::open(folder)?.sync_all());
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }

    fn walk(
        &self,
        folder: &Path,
        names: &mut Vec<String>,
        found: &mut Vec<DocumentAddress>,
    ) -> Result<(), DocumentStoreError> {
        let failed = |source| failed(format!("list {}", folder.display()), source);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Some(name) = entry.file_name().to_str().and_then(decoded) else {
                continue;
            };
            names.push(name);
            let metadata = fs::metadata(entry.path());
            if metadata.as_ref().is_ok_and(fs::Metadata::is_dir) {
                if names.len() < 2 + DocumentAddress::MAX_SEGMENTS {
                    self.walk(&entry.path(), names, found)?;
                }
            } else if let [tenant, project, path @ ..] = names.as_slice() {
                // Shown even if it cannot be read: it is in the way of an acquire.
                found.extend(DocumentAddress::new(tenant, project, path.join("/")));
            }
            names.pop();
        }
        Ok(())
    }
}

fn encoded(segment: &str) -> String {
    let name = utf8_percent_encode(segment, FILE_NAME).to_string();
    match name.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => name,
    }
}

/// The segment that `name` encodes; `None` for a file that is not one of ours.
fn decoded(name: &str) -> Option<String> {
    let segment = percent_decode_str(name).decode_utf8().ok()?;
    (encoded(&segment) == name).then(|| segment.into_owned())
}

/// No such file, or none that could exist.
fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::InvalidFilename
    )
}

fn too_large() -> io::Error {
    let problem = format!("a document has at most {MAX_BYTES} bytes");
    io::Error::new(ErrorKind::FileTooLarge, problem)
}

fn failed(action: String, source: io::Error) -> DocumentStoreError {
    DocumentStoreError::File { action, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_one_segment_and_decode() {
        for (segment, name) in [
            ("acme", "acme"),
            ("_vance", "_vance"),
            ("tex.yaml", "tex.yaml"),
            (".", "%2E"),
            ("..", "%2E."),
            ("..data", "%2E.data"),
            ("a/b", "a%2Fb"),
            ("%", "%25"),
            ("|*", "%7C%2A"),
            ("$ttlSeconds", "%24ttlSeconds"),
            ("__proto__", "__proto__"),
            ("\u{1F600}", "%F0%9F%98%80"),
        ] {
            assert_eq!(encoded(segment), name);
            assert_eq!(decoded(name).as_deref(), Some(segment));
        }
        for foreign in [".git", "..data", "a b", "a%2fb", "%zz", "%FF"] {
            assert_eq!(decoded(foreign), None, "{foreign}");
        }
    }
}
