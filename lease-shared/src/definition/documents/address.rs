use std::fmt;

use crate::definition::document_error::escaped;
use crate::name::{InvalidName, LeaseName};
use crate::scope::{check_segment, escape};

/// Where the documents that define leases are, within a tenant and project.
const LEASE_FOLDER: &str = "_vance/config/lease/";

/// The place of one configuration document: a tenant, a project of it, and a path there.
///
/// The system layer's documents are in the tenant `_vance`, project `_tenant`; a tenant's own in its project
/// `_tenant`. Displays as `tenant/project/path`, tenant and project escaped as in a counter's key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentAddress {
    tenant: String,
    project: String,
    path: String,
}

impl DocumentAddress {
    /// How many segments a path may have.
    pub(crate) const MAX_SEGMENTS: usize = 16;

    /// Checks the three: tenant and project 1 to 128 bytes without control characters; the path 1 to 1024 bytes in at
    /// most 16 segments, relative, without empty, `.` or `..` segments, backslashes and control characters.
    pub fn new(
        tenant: impl Into<String>,
        project: impl Into<String>,
        path: impl Into<String>,
    ) -> Result<Self, InvalidName> {
        let (tenant, project, path) = (tenant.into(), project.into(), path.into());
        check_segment("tenant", &tenant)?;
        check_segment("project", &project)?;
        let plain = (1..=1024).contains(&path.len())
            && path.split('/').count() <= Self::MAX_SEGMENTS
            && !path.chars().any(|c| c.is_control() || c == '\\')
            && !path
                .split('/')
                .any(|segment| matches!(segment, "" | "." | ".."));
        if !plain {
            let rule = "must be a relative path of 1 to 1024 bytes and at most 16 segments without empty, `.` or `..` segments, backslashes and control characters";
            return Err(InvalidName::new("document path", &path, rule));
        }
        Ok(Self {
            tenant,
            project,
            path,
        })
    }

    /// Where a tenant and project define the lease `name`.
    pub fn lease(
        tenant: impl Into<String>,
        project: impl Into<String>,
        name: &LeaseName,
    ) -> Result<Self, InvalidName> {
        Self::new(tenant, project, format!("{LEASE_FOLDER}{name}.yaml"))
    }

    /// The name of the lease that a document here defines; `None` if the path is not that of a lease definition, an
    /// error if its file name is no lease name.
    pub fn lease_name(&self) -> Option<Result<LeaseName, InvalidName>> {
        let file = self.path.strip_prefix(LEASE_FOLDER)?;
        let stem = file.strip_suffix(".yaml").unwrap_or(file);
        match LeaseName::new(stem) {
            Ok(name) if stem.len() < file.len() => Some(Ok(name)),
            Ok(_) => Some(Err(InvalidName::new(
                "lease document",
                file,
                "must match [A-Za-z0-9][A-Za-z0-9_-]{0,63}",
            ))),
            Err(invalid) => Some(Err(invalid)),
        }
    }

    /// The tenant, or `_vance`.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The project, or `_tenant`.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// The path within the project.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for DocumentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tenant, project) = (escape(&self.tenant), escape(&self.project));
        write!(f, "{tenant}/{project}/{}", escaped(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        for path in ["a", "a/b.yaml", "_vance/config/lease/tex.yaml", "a|b/%"] {
            assert!(
                DocumentAddress::new("acme", "thesis", path).is_ok(),
                "{path}"
            );
        }
        let (long, deep) = ("x".repeat(1025), "x/".repeat(16) + "x");
        for path in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\\b", "a\0", "a\nb",
            &long, &deep,
        ] {
            let error = DocumentAddress::new("acme", "thesis", path).unwrap_err();
            assert_eq!(error.kind, "document path", "{path:?}");
        }
    }

    #[test]
    fn configuration_has_addresses_where_holders_have_none() {
        for name in [
            "_vance",
            "_tenant",
            "|",
            "/",
            "..",
            "\u{1F600}",
            &"x".repeat(128),
        ] {
            assert!(DocumentAddress::new(name, name, "a").is_ok(), "{name}");
        }
        for name in ["", "a\0", &"x".repeat(129)] {
            let error = DocumentAddress::new("acme", name, "a").unwrap_err();
            assert_eq!((error.kind, error.value.as_str()), ("project", name));
        }
        let odd = DocumentAddress::new("a/b", "c|d", "e").unwrap();
        assert_eq!(odd.to_string(), "a%2Fb/c%7Cd/e");
    }

    #[test]
    fn lease_documents_are_told_by_their_path() {
        let named = |path: &str| DocumentAddress::new("a", "b", path).unwrap().lease_name();
        assert_eq!(
            named("_vance/config/lease/tex.yaml")
                .unwrap()
                .unwrap()
                .as_str(),
            "tex"
        );
        assert!(named("_vance/config/tools/tex.yaml").is_none());
        for bad in [
            "a|b.yaml",
            "tex",
            "tex.yml",
            ".yaml",
            "sub/tex.yaml",
            &format!("{}.yaml", "x".repeat(65)),
        ] {
            assert!(
                named(&format!("{LEASE_FOLDER}{bad}")).unwrap().is_err(),
                "{bad}"
            );
        }
    }
}
