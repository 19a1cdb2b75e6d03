use crate::level::Level;

/// A place in a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Definition,
    Name,
    Resource,
    Levels,
    Level(Level),
    TtlSeconds,
    WaitMs,
}

impl Node {
    const FIELDS: [(&str, Self); 5] = [
        ("name", Self::Name),
        ("resource", Self::Resource),
        ("levels", Self::Levels),
        ("ttlSeconds", Self::TtlSeconds),
        ("waitMs", Self::WaitMs),
    ];
    const LEVELS: [(&str, Self); 4] = [
        ("global", Self::Level(Level::Global)),
        ("tenant", Self::Level(Level::Tenant)),
        ("project", Self::Level(Level::Project)),
        ("user", Self::Level(Level::User)),
    ];

    /// The nodes below this one, by key.
    pub(super) fn children(self) -> &'static [(&'static str, Self)] {
        match self {
            Self::Definition => &Self::FIELDS,
            Self::Levels => &Self::LEVELS,
            _ => &[],
        }
    }

    pub(super) fn path(self) -> Option<&'static str> {
        Some(match self {
            Self::Definition => return None,
            Self::Name => "name",
            Self::Resource => "resource",
            Self::Levels => "levels",
            Self::Level(Level::Global) => "levels.global",
            Self::Level(Level::Tenant) => "levels.tenant",
            Self::Level(Level::Project) => "levels.project",
            Self::Level(Level::User) => "levels.user",
            Self::TtlSeconds => "ttlSeconds",
            Self::WaitMs => "waitMs",
        })
    }

    pub(super) fn rule(self) -> &'static str {
        match self {
            Self::Definition => "must be a mapping of keys to values, as in `name: tex`",
            Self::Name => {
                "must be text matching [A-Za-z0-9][A-Za-z0-9_-]{0,63}, in quotes if it would read as a number or a yes/no"
            }
            Self::Resource => {
                "must be text of 1 to 128 bytes without control characters, not beginning with \"mcp-inline:\", in quotes if it would read as a number"
            }
            Self::Levels => {
                "must be a mapping of levels to caps, as in `{ tenant: 3, user: 1 }`; leave the line out if there are none"
            }
            Self::Level(_) => {
                "must be a whole number from 1 to 1000, without quotes; leave the line out for no cap"
            }
            Self::TtlSeconds => {
                "must be a whole number of seconds from 1 to 604800 (7 days), without quotes"
            }
            Self::WaitMs => {
                "must be a whole number of milliseconds from 0 to 86400000 (1 day), without quotes"
            }
        }
    }

    /// Why an inline definition may not set this.
    pub(super) fn refused_inline(self) -> Option<&'static str> {
        match self {
            Self::Resource => Some(
                "an inline definition has a private resource: a project may write it, and must not count on another's",
            ),
            Self::Level(Level::Tenant | Level::Global) => Some(
                "an inline definition bounds its own project and users only: a project may write it, and the tenant's and the global cap are not the project's",
            ),
            _ => None,
        }
    }
}
