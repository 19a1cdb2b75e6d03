//! Secrets: what documents and payloads name as `{{secret:NAME}}`, looked up at the moment of use.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use lease_shared::definition::{DirectoryDocuments, DocumentAddress, Layer};
use lease_shared::{InvalidName, in_full};
use secrecy::SecretString;

/// The largest value.
const MAX_BYTES: usize = 64 * 1024;
/// The place of the system layer, which the bundled documents share.
const SYSTEM: (&str, &str) = ("_vance", "_tenant");
/// What the environment variables of the system's secrets begin with.
const VARIABLE_PREFIX: &str = "LEASE_SECRET_";

/// The name of a secret: `[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SecretName(String);

/// A text that names no secret. It does not say which: the text may be a secret itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a secret must match [A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}")]
pub struct InvalidSecretName;

impl SecretName {
    /// Checks `text` against the rule.
    pub fn new(text: &str) -> Result<Self, InvalidSecretName> {
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let valid = text.len() <= 128
            && text.bytes().next().is_some_and(is_word)
            && text.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'));
        match valid {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidSecretName),
        }
    }

    /// The secret that `{{secret:NAME}}` names; nothing if `text` is anything else, or anything more.
    pub fn from_reference(text: &str) -> Option<Self> {
        let name = text.strip_prefix("{{secret:")?.strip_suffix("}}")?;
        Self::new(name).ok()
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How a document or a payload names it.
    pub fn reference(&self) -> String {
        format!("{{{{secret:{self}}}}}")
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A secret that cannot be used. Names the secret and where it was looked for, never a value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It is nowhere where it may come from.
    #[error("secret {name}: there is no {place}")]
    Absent {
        /// The secret.
        name: SecretName,
        /// Where it was looked for.
        place: String,
    },
    /// It may be there.
    #[error("secret {name}: read {place}")]
    Unreadable {
        /// The secret.
        name: SecretName,
        /// Where it was looked for.
        place: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// It is there, and is no secret.
    #[error("secret {name}: {place} {problem}")]
    Unusable {
        /// The secret.
        name: SecretName,
        /// Where it is.
        place: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Nobody has secrets there.
    #[error("secret {name}")]
    Owner {
        /// The secret.
        name: SecretName,
        /// The refused tenant or project.
        #[source]
        source: InvalidName,
    },
}

/// Where secrets are, each reachable from its own tenant and project alone.
///
/// What is named in a tenant's project comes from the file `<dir>/<tenant>/<project>/NAME` and from nowhere else; what
/// the bundled and the system's documents name, from `<dir>/_vance/_tenant/NAME` or else the environment variable
/// `LEASE_SECRET_NAME`. Tenant and project are encoded as a directory of documents encodes them. Symbolic links are
/// followed, for a mounted Kubernetes secret consists of them: whoever may write the directory decides what is read.
///
/// A value is UTF-8 of 1 byte to 64 KiB, without the newline that ends its file. It is read at each use and kept nowhere.
#[derive(Debug, Clone)]
pub struct Secrets {
    dir: Option<PathBuf>,
    variable: fn(&str) -> Option<OsString>,
}

impl Secrets {
    /// The secrets below `dir`. Without one, only the system has any. Reads nothing yet.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self {
            dir,
            variable: |name| std::env::var_os(name),
        }
    }

    /// The value of the secret that something in this tenant's project names; in `_vance/_tenant`, something of the
    /// system's.
    ///
    /// # Errors
    /// It is absent, unreadable or unusable. A file that is there and cannot be used is not passed over for a variable.
    pub async fn resolve(
        &self,
        tenant: &str,
        project: &str,
        name: &SecretName,
    ) -> Result<SecretString, SecretError> {
        let address = DocumentAddress::new(tenant, project, name.as_str()).map_err(|source| {
            let name = name.clone();
            SecretError::Owner { name, source }
        })?;
        let (this, asked) = (self.clone(), name.clone());
        // File systems have no asynchronous calls.
        let looked = tokio::task::spawn_blocking(move || this.look(&address, &asked)).await;
        looked.unwrap_or_else(|ended| {
            Err(SecretError::Unreadable {
                name: name.clone(),
                place: "the secrets".to_owned(),
                source: io::Error::other(ended),
            })
        })
    }

    /// The value of the secret that `field` of a layer's document names; or, in words, which document cannot have it and why.
    pub(crate) async fn of_document(
        &self,
        layer: Layer,
        address: &DocumentAddress,
        field: &str,
        name: &SecretName,
    ) -> Result<SecretString, String> {
        let resolved = self
            .resolve(address.tenant(), address.project(), name)
            .await;
        resolved.map_err(|error| {
            let rule = match layer {
                Layer::Bundled | Layer::System => String::new(),
                layer => format!("; a {layer}'s document has only the {layer}'s own secrets"),
            };
            let problem = in_full(&error);
            format!("{layer} document {address}: {field}: {problem}{rule}")
        })
    }

    fn look(
        &self,
        address: &DocumentAddress,
        name: &SecretName,
    ) -> Result<SecretString, SecretError> {
        let mut places = Vec::new();
        match &self.dir {
            Some(dir) => {
                let file = DirectoryDocuments::new(dir).file(address);
                let place = file.display().to_string();
                match read(&file) {
                    Ok(bytes) => return usable(bytes, name, place),
                    Err(error) if is_absence(&error) => places.push(place),
                    Err(source) => {
                        let name = name.clone();
                        return Err(SecretError::Unreadable {
                            name,
                            place,
                            source,
                        });
                    }
                }
            }
            None => places.push("directory of secrets".to_owned()),
        }
        if (address.tenant(), address.project()) == SYSTEM {
            let variable = format!("{VARIABLE_PREFIX}{name}");
            match (self.variable)(&variable) {
                Some(value) => return usable(value.into_encoded_bytes(), name, variable),
                None => places.push(variable),
            }
        }
        Err(SecretError::Absent {
            name: name.clone(),
            place: places.join(" and no "),
        })
    }
}

/// No more than shows that it is too much.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its writer.
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let newline = 2;
    let limit = MAX_BYTES + newline + 1;
    let mut bytes = Vec::new();
    File::open(file)?
        .take(limit as u64)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// No such file, or none that could exist.
fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename
    )
}

fn usable(bytes: Vec<u8>, name: &SecretName, place: String) -> Result<SecretString, SecretError> {
    checked(bytes).map_err(|problem| SecretError::Unusable {
        name: name.clone(),
        place,
        problem,
    })
}

fn checked(bytes: Vec<u8>) -> Result<SecretString, &'static str> {
    // The error would hold the bytes.
    let mut text = String::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    match text.len() {
        0 => Err("is empty"),
        1..=MAX_BYTES => Ok(text.into()),
        _ => Err("has more than 64 KiB"),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use tempfile::TempDir;

    use super::*;

    fn named(name: &str) -> SecretName {
        SecretName::new(name).unwrap()
    }

    /// A directory with these files, and an environment in which every variable is `variable`.
    fn stage(files: &[(&str, &[u8])]) -> (TempDir, Secrets) {
        let dir = tempfile::tempdir().unwrap();
        for (path, value) in files {
            let file = dir.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, value).unwrap();
        }
        let secrets = Secrets {
            dir: Some(dir.path().join("root")),
            variable: |name| Some(name.strip_prefix("LEASE_SECRET_")?.to_lowercase().into()),
        };
        (dir, secrets)
    }

    async fn value(secrets: &Secrets, tenant: &str, project: &str, name: &str) -> Option<String> {
        let value = secrets.resolve(tenant, project, &named(name)).await.ok()?;
        Some(value.expose_secret().to_owned())
    }

    /// The error's whole chain, and how it looks to a debugger.
    async fn refusal(secrets: &Secrets, tenant: &str, project: &str, name: &str) -> String {
        let error = secrets.resolve(tenant, project, &named(name)).await;
        let error = error.expect_err("no value");
        let debug = format!("{error:?}");
        format!("{debug} {:#}", anyhow::Error::from(error))
    }

    #[test]
    fn names_are_file_names() {
        for good in ["a", "_", "0", "API_KEY", "a.b-c", "_..", &"x".repeat(128)] {
            assert_eq!(named(good).as_str(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "-a",
            "a/b",
            "../a",
            "a\0",
            "a b",
            "é",
            "a\n",
            &"x".repeat(129),
        ] {
            let error = SecretName::new(bad).expect_err(bad);
            assert!(error.to_string().contains("[A-Za-z0-9_]"), "{error}");
        }
    }

    #[test]
    fn reference_is_a_name_in_braces_and_nothing_else() {
        let name = SecretName::from_reference("{{secret:API_KEY}}").unwrap();
        assert_eq!(name, named("API_KEY"));
        assert_eq!(name.reference(), "{{secret:API_KEY}}");
        for other in [
            "",
            "API_KEY",
            "{{secret:}}",
            "{{secret:..}}",
            "{{secret:a}} ",
            " {{secret:a}}",
            "Bearer {{secret:a}}",
            "{{secret:a}}{{secret:b}}",
            "{{secret: a}}",
            "{secret:a}",
            "{{env:a}}",
        ] {
            assert_eq!(SecretName::from_reference(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn tenants_project_has_its_own_files_and_nothing_else() {
        let (_dir, secrets) = stage(&[
            ("root/acme/thesis/key", b"acme's"),
            ("root/other/thesis/key", b"other's"),
            ("root/acme/key", b"no project's"),
            ("root/_vance/_tenant/key", b"system's"),
            ("root/a%2Fb/%2E./key", b"encoded"),
            ("key", b"outside"),
        ]);
        for (tenant, project, expected) in [
            ("acme", "thesis", Some("acme's")),
            ("other", "thesis", Some("other's")),
            ("a/b", "..", Some("encoded")),
            ("acme", "..", None),
            ("acme", ".", None),
            ("..", "..", None),
            ("acme/..", "other/thesis", None),
            ("acme", "../other/thesis", None),
            ("", "acme", None),
            ("acme", "", None),
            ("acme\0", "thesis", None),
            ("acme", "second", None),
            ("acme", "_tenant", None),
            ("_vance", "thesis", None),
            ("acme", &"x".repeat(128), None),
        ] {
            let found = value(&secrets, tenant, project, "key").await;
            assert_eq!(found.as_deref(), expected, "{tenant:?} {project:?}");
        }
        let error = refusal(&secrets, "acme", "second", "key").await;
        assert!(error.contains("secret key: there is no "), "{error}");
        assert!(error.contains("root/acme/second/key"), "{error}");
        assert!(!error.contains("LEASE_SECRET_"), "{error}");
    }

    #[tokio::test]
    async fn system_has_its_files_before_the_environment() {
        let (_dir, secrets) = stage(&[
            ("root/_vance/_tenant/both", b"file"),
            ("root/_vance/_tenant/empty", b""),
        ]);
        let system = async |name| value(&secrets, "_vance", "_tenant", name).await;
        assert_eq!(system("both").await.as_deref(), Some("file"));
        assert_eq!(system("VARIABLE").await.as_deref(), Some("variable"));
        // Not passed over.
        assert_eq!(system("empty").await, None);
        let none = Secrets {
            variable: |_| None,
            ..secrets
        };
        let error = refusal(&none, "_vance", "_tenant", "X").await;
        assert!(
            error.contains("_vance/_tenant/X and no LEASE_SECRET_X"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn without_a_directory_only_the_system_has_secrets() {
        let (_dir, secrets) = stage(&[]);
        for dir in [None, secrets.dir.clone()] {
            let secrets = Secrets { dir, ..secrets };
            assert_eq!(value(&secrets, "acme", "thesis", "KEY").await, None);
            let system = value(&secrets, "_vance", "_tenant", "KEY").await;
            assert_eq!(system.as_deref(), Some("key"));
        }
        let error = refusal(&Secrets::new(None), "acme", "thesis", "KEY").await;
        assert!(error.contains("no directory of secrets"), "{error}");
    }

    #[tokio::test]
    async fn value_is_the_file_without_its_last_newline() {
        let (longest, longer) = ("x".repeat(MAX_BYTES), "x".repeat(MAX_BYTES + 1));
        let with_newline = format!("{longest}\r\n");
        let rows: [(&[u8], Option<&str>); 10] = [
            (b"key", Some("key")),
            (b"key\n", Some("key")),
            (b"key\r\n", Some("key")),
            (b"key\n\n", Some("key\n")),
            (b" key ", Some(" key ")),
            (with_newline.as_bytes(), Some(&longest)),
            (longer.as_bytes(), None),
            (b"", None),
            (b"\n", None),
            (b"key\xff", None),
        ];
        for (bytes, expected) in rows {
            let (_dir, secrets) = stage(&[("root/acme/thesis/key", bytes)]);
            let found = value(&secrets, "acme", "thesis", "key").await;
            assert!(found.as_deref() == expected, "{} bytes", bytes.len());
        }
    }

    #[tokio::test]
    async fn no_error_holds_a_value() {
        let large = "hunter2".repeat(MAX_BYTES / 4);
        for (bytes, problem) in [
            (b"hunter2\xff".as_slice(), "key is not UTF-8"),
            (large.as_bytes(), "key has more than 64 KiB"),
        ] {
            let (_dir, secrets) = stage(&[("root/acme/thesis/key", bytes)]);
            let error = refusal(&secrets, "acme", "thesis", "key").await;
            assert!(error.contains("root/acme/thesis/"), "{error}");
            assert!(error.ends_with(problem), "{error}");
            assert!(
                !error.contains("hunter2") && !error.contains("104, 117, 110"),
                "{error}"
            );
        }
        let (dir, secrets) = stage(&[]);
        fs::create_dir_all(dir.path().join("root/acme/thesis/key")).unwrap();
        let error = refusal(&secrets, "acme", "thesis", "key").await;
        assert!(error.contains("not a file"), "{error}");
    }
}
