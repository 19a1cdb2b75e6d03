//! Checked names: what may stand in a path, in a counter's key or in a holder.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name that breaks its rule, with the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {value:?} {rule}")]
pub struct InvalidName {
    /// What the name was meant for, for example `lease name`.
    pub kind: &'static str,
    /// The refused text, cut to 140 characters.
    pub value: String,
    /// What a valid name looks like.
    pub rule: &'static str,
}

impl InvalidName {
    pub(crate) fn new(kind: &'static str, value: &str, rule: &'static str) -> Self {
        Self {
            kind,
            value: value.chars().take(140).collect(),
            rule,
        }
    }
}

macro_rules! checked_name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks `text` against the rule of this name.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidName> {
                let text = text.into();
                let valid: fn(&str) -> bool = $valid;
                if valid(&text) {
                    Ok(Self(text))
                } else {
                    Err(InvalidName::new($kind, &text, $rule))
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

checked_name!(
    /// The name of a lease definition; also its file name, so it is one safe path segment.
    LeaseName,
    "lease name",
    "must match [A-Za-z0-9][A-Za-z0-9_-]{0,63}",
    is_segment
);

checked_name!(
    /// Which kind of consumer holds a lease, and so which handler cleans up after a revocation.
    /// Set by code, never by configuration.
    LeaseType,
    "lease type",
    "must match [A-Za-z0-9][A-Za-z0-9_-]{0,63}",
    is_segment
);

checked_name!(
    /// The identity of one process that holds leases.
    PodId,
    "pod id",
    "must be 1 to 128 bytes without control characters",
    is_plain
);

checked_name!(
    /// The logical resource that a counter counts. Definitions of several names may share one.
    Resource,
    "resource",
    "must be 1 to 128 bytes without control characters and not begin with \"mcp-inline:\", which is kept for inline definitions",
    |text| is_plain(text) && !text.starts_with(Resource::INLINE_PREFIX)
);

checked_name!(
    /// The identity of one acquired lease, and what it books in every counter.
    LeaseToken,
    "lease token",
    "must be 32 lower-case hexadecimal digits, as printed by an acquire",
    |text| text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
);

impl LeaseType {
    /// For what ends with its holder, as a command under `lease run` does: every process knows it, and no handler cleans
    /// up behind it.
    ///
    /// When such a lease is reaped as idle, its slot comes back at once. When an operator revokes it, nobody can end what
    /// runs under it but its holder: the slot comes back when that releases it, or when its time to live is over. What
    /// needs a clean-up of its own has a type of its own, with a [`LeaseHandler`](crate::LeaseHandler) in a brain.
    pub fn command() -> Self {
        Self("command".to_owned())
    }
}

impl LeaseToken {
    /// A fresh token: 122 random bits.
    pub(crate) fn fresh() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }
}

impl Resource {
    /// What the private resources of inline definitions begin with.
    pub(crate) const INLINE_PREFIX: &str = "mcp-inline:";

    /// The private resource of an inline definition. Each part is escaped, so that no two meet.
    pub(crate) fn inline(tenant: &str, project: &str, name: &LeaseName) -> Self {
        use crate::scope::escape;
        let prefix = Self::INLINE_PREFIX;
        Self(format!(
            "{prefix}{}/{}/{name}",
            escape(tenant),
            escape(project)
        ))
    }

    /// A resource read back from the store, inline ones included.
    pub(crate) fn stored(text: String) -> Self {
        Self(text)
    }
}

impl From<&LeaseName> for Resource {
    /// The default resource of a definition: its name. Every lease name is a valid resource.
    fn from(name: &LeaseName) -> Self {
        Self(name.0.clone())
    }
}

/// `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`
fn is_segment(text: &str) -> bool {
    text.len() <= 64
        && text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// 1 to 128 bytes without control characters.
pub(crate) fn is_plain(text: &str) -> bool {
    (1..=128).contains(&text.len()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_names_are_path_segments() {
        for good in ["a", "tex", "0", "A-b_c", &"x".repeat(64)] {
            assert!(LeaseName::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "_a",
            "a/b",
            "..",
            ".",
            "a|b",
            "a.b",
            "é",
            "a\0",
            "a b",
            &"x".repeat(65),
        ] {
            let error = LeaseName::new(bad).unwrap_err();
            assert_eq!(error.value, bad);
            assert!(error.to_string().contains("[A-Za-z0-9]"), "{error}");
        }
    }

    #[test]
    fn no_document_can_name_an_inline_resource() {
        assert!(Resource::new("mcp-inline:acme/thesis/browser").is_err());
        let name = LeaseName::new("browser").unwrap();
        assert_eq!(
            Resource::inline("a/b", "c", &name).as_str(),
            "mcp-inline:a%2Fb/c/browser"
        );
    }

    #[test]
    fn fresh_tokens_parse() {
        assert!(LeaseToken::new(LeaseToken::fresh().as_str()).is_ok());
        assert!(LeaseToken::new("x").is_err());
    }
}
