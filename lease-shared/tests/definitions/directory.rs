//! What can be wrong with a directory of documents, none of which may read as "absent".

use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use lease_shared::definition::{
    ConfigDocuments, DirectoryDocuments, DocumentAddress, DocumentStoreError, ResolveError,
};
use tempfile::TempDir;

use crate::support::{ada, at, resolved, tex, unbundled, wait};

struct Directory {
    root: TempDir,
    documents: ConfigDocuments,
}

impl Directory {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let documents = ConfigDocuments::Directory(DirectoryDocuments::new(root.path()));
        Self { root, documents }
    }

    /// The file of acme's project thesis, its folders made.
    fn file(&self) -> PathBuf {
        let folder = self.root.path().join("acme/thesis/_vance/config/lease");
        fs::create_dir_all(&folder).unwrap();
        folder.join("tex.yaml")
    }

    /// Reading the document fails, alone and in a resolver, and the error names it.
    async fn refuses(&self, problem: &str) {
        let error = self.documents.get(&at("acme", "thesis")).await.unwrap_err();
        let chain = chain(&error);
        assert!(
            chain.contains("acme/thesis/_vance/config/lease/tex.yaml"),
            "{chain}"
        );
        assert!(chain.contains(problem), "{chain}");
        let error = unbundled(self.documents.clone())
            .resolve(&ada(), &tex())
            .await;
        assert!(
            matches!(error, Err(ResolveError::Unavailable(_))),
            "{error:?}"
        );
    }
}

fn chain(error: &DocumentStoreError) -> String {
    format!(
        "{error}: {}",
        error.source().map(ToString::to_string).unwrap_or_default()
    )
}

#[tokio::test]
async fn a_missing_root_is_an_error_at_every_call() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("documents");
    let documents = ConfigDocuments::Directory(DirectoryDocuments::new(&root));
    let address = at("acme", "thesis");
    let check = async || {
        for error in [
            documents.get(&address).await.unwrap_err(),
            documents.put(&address, "text").await.unwrap_err(),
            documents.remove(&address).await.unwrap_err(),
            documents.list(None, None).await.unwrap_err(),
        ] {
            assert!(
                chain(&error).contains(root.to_str().unwrap()),
                "{}",
                chain(&error)
            );
        }
    };
    check().await;
    assert!(!root.exists(), "a write does not make the root");

    fs::create_dir(&root).unwrap();
    documents.put(&address, &wait(1)).await.unwrap();
    let resolver = unbundled(documents.clone());
    assert_eq!(resolved(&resolver).await, Some(1));
    fs::rename(&root, parent.path().join("gone")).unwrap();
    check().await;
    resolver.invalidate_all();
    let error = resolver.resolve(&ada(), &tex()).await.unwrap_err();
    assert!(matches!(error, ResolveError::Unavailable(_)), "{error}");

    fs::write(&root, "a file").unwrap();
    check().await;
}

#[tokio::test]
async fn a_folder_in_the_documents_place_is_an_error() {
    let directory = Directory::new();
    fs::create_dir(directory.file()).unwrap();
    directory.refuses("is not a file").await;
}

#[tokio::test]
async fn a_file_in_a_folders_place_is_an_error() {
    let directory = Directory::new();
    fs::write(directory.root.path().join("acme"), "text").unwrap();
    directory.refuses("Not a directory").await;
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_an_error() {
    let directory = Directory::new();
    fs::write(directory.file(), b"name: tex\nresource: \xff\n").unwrap();
    directory.refuses("UTF-8").await;
}

#[tokio::test]
async fn a_large_file_is_an_error() {
    let directory = Directory::new();
    fs::File::create(directory.file())
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    directory.refuses("at most 1048576 bytes").await;
}

#[tokio::test]
async fn an_unreadable_file_is_an_error() {
    let directory = Directory::new();
    fs::write(directory.file(), "name: tex").unwrap();
    fs::set_permissions(directory.file(), fs::Permissions::from_mode(0o000)).unwrap();
    // Root reads it all the same.
    if fs::File::open(directory.file()).is_err() {
        directory.refuses("denied").await;
    }
    fs::remove_file(directory.file()).unwrap();
    symlink(directory.file(), directory.file()).unwrap();
    directory.refuses("symbolic links").await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_opens_and_does_not_read_is_an_error() {
    let directory = Directory::new();
    symlink("/proc/self/mem", directory.file()).unwrap();
    directory.refuses("error").await;
}

#[tokio::test]
async fn a_link_to_nothing_is_an_error() {
    let directory = Directory::new();
    symlink("/nowhere/at/all", directory.file()).unwrap();
    directory.refuses("is a link to nothing").await;

    let directory = Directory::new();
    symlink("/nowhere", directory.root.path().join("acme")).unwrap();
    directory.refuses("is a link to nothing").await;
}

#[tokio::test]
async fn links_are_followed_and_a_write_replaces_them() {
    let directory = Directory::new();
    let version = directory
        .root
        .path()
        .join("..2026/acme/thesis/_vance/config/lease");
    fs::create_dir_all(&version).unwrap();
    fs::write(version.join("tex.yaml"), "name: tex").unwrap();
    symlink("..2026", directory.root.path().join("..data")).unwrap();
    symlink("..data/acme", directory.root.path().join("acme")).unwrap();
    let address = at("acme", "thesis");
    let documents = &directory.documents;
    assert_eq!(
        documents.get(&address).await.unwrap().as_deref(),
        Some("name: tex")
    );
    assert_eq!(documents.list(None, None).await.unwrap(), [address]);
}

#[tokio::test]
async fn a_name_too_long_for_the_file_system_is_absent_and_not_written() {
    let directory = Directory::new();
    let tenant = "\u{1F600}".repeat(32);
    assert_eq!(tenant.len(), 128);
    let address = DocumentAddress::lease(tenant, "thesis", &tex()).unwrap();
    assert_eq!(directory.documents.get(&address).await.unwrap(), None);
    assert!(!directory.documents.remove(&address).await.unwrap());
    let error = directory.documents.put(&address, "text").await.unwrap_err();
    assert!(chain(&error).contains("too long"), "{}", chain(&error));
}

#[tokio::test]
async fn a_failed_write_leaves_nothing_behind() {
    let directory = Directory::new();
    fs::create_dir(directory.file()).unwrap();
    let address = at("acme", "thesis");
    assert!(directory.documents.put(&address, "text").await.is_err());
    let large = "x".repeat(1024 * 1024 + 1);
    assert!(
        directory
            .documents
            .put(&at("acme", "other"), &large)
            .await
            .is_err()
    );
    let folder = directory.file().parent().unwrap().to_owned();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    assert!(!directory.root.path().join("acme/other").exists());
}
