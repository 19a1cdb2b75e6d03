//! The four quota levels and their caps.

use std::fmt;
use std::num::NonZeroU16;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One of the four scopes that a cap can bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// One user of a tenant, across the tenant's projects.
    User,
    /// One project of a tenant.
    Project,
    /// One tenant.
    Tenant,
    /// Everybody: the resource's own ceiling.
    Global,
}

impl Level {
    /// The only order in which levels are booked.
    pub const NARROW_TO_WIDE: [Self; 4] = [Self::User, Self::Project, Self::Tenant, Self::Global];

    /// The level's name as it stands in documents, keys and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Tenant => "tenant",
            Self::Global => "global",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many slots a level has: 1 to 1000.
///
/// The upper bound is there because a counter lists its tokens: a booking journals 5 KiB at 100, 40 KiB at 1000 and
/// 395 KiB at 10 000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Cap(NonZeroU16);

impl Cap {
    /// The largest cap.
    pub const MAX: u16 = 1000;

    /// A cap of `slots`, if that is in 1 to 1000.
    pub fn new(slots: u64) -> Option<Self> {
        let slots = u16::try_from(slots).ok().filter(|n| *n <= Self::MAX)?;
        NonZeroU16::new(slots).map(Self)
    }

    /// The number of slots.
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How long a lease lives after its last use: 1 second to 7 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TtlSeconds(u32);

impl TtlSeconds {
    /// Seven days.
    pub const MAX: u32 = 604_800;
    /// What holds where no layer says.
    pub const DEFAULT: Self = Self(120);

    /// A time to live of `seconds`, if that is in 1 to 604 800.
    pub fn new(seconds: u64) -> Option<Self> {
        let seconds = u32::try_from(seconds).ok()?;
        (1..=Self::MAX).contains(&seconds).then_some(Self(seconds))
    }

    /// The number of seconds.
    pub fn get(self) -> u32 {
        self.0
    }

    /// The same as a duration.
    pub fn as_duration(self) -> Duration {
        Duration::from_secs(self.0.into())
    }
}

/// How long an acquire waits for a slot: 0 (one try) to one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct WaitMs(u32);

impl WaitMs {
    /// One day.
    pub const MAX: u32 = 86_400_000;
    /// What holds where no layer says.
    pub const DEFAULT: Self = Self(10_000);

    /// A wait of `millis`, if that is at most a day.
    pub fn new(millis: u64) -> Option<Self> {
        let millis = u32::try_from(millis).ok()?;
        (millis <= Self::MAX).then_some(Self(millis))
    }

    /// The number of milliseconds.
    pub fn get(self) -> u32 {
        self.0
    }

    /// The same as a duration.
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}
