//! The clock deadlines are read on: it counts the time the machine was suspended.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

// macOS counts suspend in CLOCK_MONOTONIC and has no CLOCK_BOOTTIME.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A moment on a clock that runs on while the machine is suspended, and that every process of the
/// machine reads alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// This moment.
    pub fn now() -> Self {
        let time = clock_gettime(CLOCK);
        Self(Duration::new(
            u64::try_from(time.tv_sec).unwrap_or_default(),
            u32::try_from(time.tv_nsec).unwrap_or_default(),
        ))
    }

    /// How long it is until this moment; zero when it has passed.
    pub fn remaining(self) -> Duration {
        self - Self::now()
    }

    /// Whether this moment has come.
    pub fn has_passed(self) -> bool {
        Self::now() >= self
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// Zero when the right side is the later one.
impl Sub for BootInstant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Until when a child may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// When every process of the child is asked to end (SIGTERM).
    pub term_at: BootInstant,
    /// When every process of the child still there is killed (SIGKILL). Leave a little time between
    /// this and the moment the lease may have run out: killing takes a moment under load.
    pub kill_at: BootInstant,
}

impl Deadlines {
    /// None at all; the grace counts from when the child is asked to end.
    pub(crate) fn after(lifetime: Duration, grace: Duration) -> Self {
        let term_at = BootInstant::now() + lifetime;
        let kill_at = term_at + grace;
        Self { term_at, kill_at }
    }

    pub(crate) fn never(grace: Duration) -> Self {
        Self {
            term_at: BootInstant(Duration::MAX.saturating_sub(grace)),
            kill_at: BootInstant(Duration::MAX),
        }
    }

    /// Whether there is anything to look at the clock for.
    pub(crate) fn are_never(&self) -> bool {
        self.kill_at == BootInstant(Duration::MAX)
    }

    /// The time between being asked and being killed.
    pub fn grace(&self) -> Duration {
        self.kill_at - self.term_at
    }
}
