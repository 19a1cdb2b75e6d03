//! Whose slots are counted: a holder's tenancy, and the key of the counter it books at each level.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::level::Level;
use crate::name::{InvalidName, Resource, is_plain};

/// The tenant and the project in which the system layer's documents live; refused as a holder's.
pub(crate) const SYSTEM_TENANT: &str = "_vance";
/// The project in which a tenant's own documents live; refused as a holder's.
pub(crate) const TENANT_PROJECT: &str = "_tenant";

/// Who asks for a lease. All three are required.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenancy {
    tenant: String,
    project: String,
    user: String,
}

impl Tenancy {
    /// Checks the three names: 1 to 128 bytes each, no control characters, and neither `_vance` nor `_tenant`, which
    /// are where the system's and a tenant's own documents live.
    pub fn new(
        tenant: impl Into<String>,
        project: impl Into<String>,
        user: impl Into<String>,
    ) -> Result<Self, InvalidName> {
        let (tenant, project, user) = (tenant.into(), project.into(), user.into());
        for (kind, value) in [("tenant", &tenant), ("project", &project), ("user", &user)] {
            check_segment(kind, value)?;
            if value == SYSTEM_TENANT || value == TENANT_PROJECT {
                let rule = "is reserved for configuration documents and holds no leases";
                return Err(InvalidName::new(kind, value, rule));
            }
        }
        Ok(Self {
            tenant,
            project,
            user,
        })
    }

    /// The tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The project, within the tenant.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// The user, within the tenant.
    pub fn user(&self) -> &str {
        &self.user
    }
}

impl fmt::Display for Tenancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tenant, self.project, self.user)
    }
}

/// The rule for a tenant, a project or a user, wherever one is named.
pub(crate) fn check_segment(kind: &'static str, value: &str) -> Result<(), InvalidName> {
    if is_plain(value) {
        Ok(())
    } else {
        let rule = "must be 1 to 128 bytes without control characters";
        Err(InvalidName::new(kind, value, rule))
    }
}

/// The scope that one counter counts for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// One user of a tenant, across its projects.
    User {
        /// The tenant.
        tenant: String,
        /// The user.
        user: String,
    },
    /// One project of a tenant.
    Project {
        /// The tenant.
        tenant: String,
        /// The project.
        project: String,
    },
    /// One tenant.
    Tenant {
        /// The tenant.
        tenant: String,
    },
    /// Everybody.
    Global,
}

impl Scope {
    /// The scope of `level` that a holder of this tenancy falls into.
    pub fn of(level: Level, tenancy: &Tenancy) -> Self {
        let tenant = tenancy.tenant.clone();
        match level {
            Level::User => Self::User {
                tenant,
                user: tenancy.user.clone(),
            },
            Level::Project => Self::Project {
                tenant,
                project: tenancy.project.clone(),
            },
            Level::Tenant => Self::Tenant { tenant },
            Level::Global => Self::Global,
        }
    }

    /// The level this scope belongs to.
    pub fn level(&self) -> Level {
        match self {
            Self::User { .. } => Level::User,
            Self::Project { .. } => Level::Project,
            Self::Tenant { .. } => Level::Tenant,
            Self::Global => Level::Global,
        }
    }

    /// The tenant, unless global.
    pub fn tenant(&self) -> Option<&str> {
        match self {
            Self::User { tenant, .. } | Self::Project { tenant, .. } | Self::Tenant { tenant } => {
                Some(tenant)
            }
            Self::Global => None,
        }
    }

    /// The project, at that level only.
    pub fn project(&self) -> Option<&str> {
        match self {
            Self::Project { project, .. } => Some(project),
            _ => None,
        }
    }

    /// The user, at that level only.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::User { user, .. } => Some(user),
            _ => None,
        }
    }
}

impl fmt::Display for Scope {
    /// Escaped as in a counter's key; empty for the global scope.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { tenant, user: part }
            | Self::Project {
                tenant,
                project: part,
            } => {
                write!(f, "{}/{}", escape(tenant), escape(part))
            }
            Self::Tenant { tenant } => f.write_str(&escape(tenant)),
            Self::Global => Ok(()),
        }
    }
}

/// The `_id` of a counter: `<resource>|<level>|<scope>`.
///
/// Each name in it is escaped, so that no tenant, project, user or resource can be read as a part of another's key:
///
/// ```
/// use lease_shared::{CounterKey, Level, Resource, Tenancy};
///
/// let ada = Tenancy::new("a/b", "thesis", "ada")?;
/// let key = CounterKey::new(Resource::new("tex2pdf")?, Level::User, &ada);
/// assert_eq!(key.to_string(), "tex2pdf|user|a%2Fb/ada");
/// assert_eq!(key.to_string().parse::<CounterKey>()?, key);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CounterKey {
    resource: Resource,
    scope: Scope,
}

impl CounterKey {
    /// The key that a holder of `tenancy` books for `resource` at `level`.
    pub fn new(resource: Resource, level: Level, tenancy: &Tenancy) -> Self {
        Self {
            resource,
            scope: Scope::of(level, tenancy),
        }
    }

    /// The resource that is counted.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The level at which it is counted.
    pub fn level(&self) -> Level {
        self.scope.level()
    }

    /// The scope for which it is counted.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }
}

impl fmt::Display for CounterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = utf8_percent_encode(self.resource.as_str(), RESOURCE);
        write!(f, "{resource}|{}|{}", self.level(), self.scope)
    }
}

impl FromStr for CounterKey {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let invalid =
            || InvalidName::new("counter key", text, "must be <resource>|<level>|<scope>");
        let mut parts = text.split('|');
        let (Some(resource), Some(level), Some(scope), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(invalid());
        };
        let mut names = scope.split('/').map(unescape);
        let scope = match (level, names.next(), names.next(), names.next()) {
            ("user", Some(Some(tenant)), Some(Some(user)), None) => Scope::User { tenant, user },
            ("project", Some(Some(tenant)), Some(Some(project)), None) => {
                Scope::Project { tenant, project }
            }
            ("tenant", Some(Some(tenant)), None, None) => Scope::Tenant { tenant },
            ("global", Some(Some(nobody)), None, None) if nobody.is_empty() => Scope::Global,
            _ => return Err(invalid()),
        };
        let resource = unescape(resource)
            .map(Resource::stored)
            .ok_or_else(invalid)?;
        Ok(Self { resource, scope })
    }
}

/// A resource stands alone before the first `|`, so its slashes need no escape.
const RESOURCE: &AsciiSet = &CONTROLS.add(b'|').add(b'%');
const NAME: &AsciiSet = &RESOURCE.add(b'/');

/// Escapes `|`, `/` and `%` (and what is not ASCII) in one name.
pub(crate) fn escape(name: &str) -> String {
    utf8_percent_encode(name, NAME).to_string()
}

fn unescape(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a|/%*.$_ 25CF\u{e9}\u{1F600}-]{1,6}",
            "\\PC{1,20}".prop_map(|text| text.chars().take(20).collect()),
        ]
        .prop_filter("a valid holder's name", |text| {
            Tenancy::new(text, text, text).is_ok()
        })
    }

    fn key() -> impl Strategy<Value = CounterKey> {
        (name(), name(), name(), name(), 0..4_usize).prop_map(
            |(resource, tenant, project, user, level)| {
                CounterKey::new(
                    Resource::stored(resource),
                    Level::NARROW_TO_WIDE[level],
                    &Tenancy::new(tenant, project, user).unwrap(),
                )
            },
        )
    }

    proptest! {
        #[test]
        fn keys_parse_back(key in key()) {
            prop_assert_eq!(key.to_string().parse::<CounterKey>().unwrap(), key);
        }

        #[test]
        fn different_keys_have_different_texts(a in key(), b in key()) {
            prop_assert_eq!(a == b, a.to_string() == b.to_string());
        }
    }

    #[test]
    fn hostile_names_are_only_names() {
        for name in [
            "|",
            "/",
            "%",
            "*",
            ".",
            "..",
            "$ttlSeconds",
            "__proto__",
            "\u{1F600}",
            &"x".repeat(128),
        ] {
            let tenancy = Tenancy::new(name, name, name).unwrap();
            for level in Level::NARROW_TO_WIDE {
                let key = CounterKey::new(Resource::new("r").unwrap(), level, &tenancy);
                assert_eq!(key.to_string().parse::<CounterKey>().unwrap(), key);
                assert_eq!(key.to_string().matches('|').count(), 2, "{key}");
            }
        }
    }

    #[test]
    fn names_outside_the_rule_are_refused_by_name() {
        for name in ["", "_vance", "_tenant", "a\0", "a\nb", &"x".repeat(129)] {
            let error = Tenancy::new("acme", name, "ada").unwrap_err();
            assert_eq!((error.kind, error.value.as_str()), ("project", name));
        }
    }
}
