//! When a heartbeat came too late.

use std::time::Duration;

use mongodb::bson::DateTime;
use supervise::BootInstant;

use super::rows::Written;
use super::settings::PodSettings;

/// The last heartbeat that was acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastBeat {
    /// When it was sent: the server may have applied it that early.
    pub(super) sent: BootInstant,
    pub(super) booted_at: DateTime,
    pub(super) written_at: DateTime,
    /// Since when the store has answered this pod without a long break.
    pub(super) in_touch: BootInstant,
}

/// Why others may have taken this pod for dead before the heartbeat that was just acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// Nothing was acknowledged for so long.
    Silent(Duration),
    /// The row was gone, or had been marked as stopped by another pod.
    WrittenAnew,
}

/// What a silence of this pod means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// After this, others may have taken it for dead.
    pub(super) late: Duration,
    /// After this, the store may have been away for so long that others are silent for no fault of theirs.
    pub(super) out_of_touch: Duration,
}

impl Patience {
    pub(super) fn of(settings: &PodSettings) -> Self {
        Self {
            late: settings.stale.saturating_sub(settings.heartbeat),
            // A silence of the others can be longer by one and a half of their heartbeats, of which three make a stale
            // period at least: half of it is what surely leaves them alive.
            out_of_touch: settings.stale / 2,
        }
    }
}

impl LastBeat {
    /// The first one, which had none before it, and was acknowledged now.
    pub(super) fn first(written: Written, sent: BootInstant) -> Self {
        Self {
            sent,
            booted_at: written.booted_at,
            written_at: written.written_at,
            in_touch: BootInstant::now(),
        }
    }

    /// For how long the store has answered this pod without a break of `enough`, at `now`.
    pub(super) fn in_touch_for(self, now: BootInstant, enough: Duration) -> Duration {
        match now - self.sent < enough {
            true => now - self.in_touch,
            false => Duration::ZERO,
        }
    }

    /// What follows from another acknowledgement, that came at `now` to what was sent at `sent`.
    ///
    /// The silence is counted from sending to acknowledgement, the longest that it can have been for others; or by the
    /// server's clock, which a new primary may have put forward, and then all pods look silent at once. One heartbeat
    /// less than their patience is close enough to be asked about.
    pub(super) fn then(
        self,
        written: Written,
        sent: BootInstant,
        now: BootInstant,
        patience: Patience,
    ) -> (Self, Option<Late>) {
        let by_server = u64::try_from(written.silent_millis).unwrap_or(0);
        let silence = (now - self.sent).max(Duration::from_millis(by_server));
        let late = if written.written_at != self.written_at {
            Some(Late::WrittenAnew)
        } else if silence >= patience.late {
            Some(Late::Silent(silence))
        } else {
            None
        };
        let next = Self {
            sent: self.sent.max(sent),
            in_touch: match silence < patience.out_of_touch {
                true => self.in_touch,
                false => now,
            },
            ..Self::first(written, sent)
        };
        (next, late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::PodStatus;

    #[test]
    fn beat_is_late_when_others_may_have_given_the_pod_up() {
        let start = BootInstant::now();
        let written = |at| Written {
            status: PodStatus::Running,
            booted_at: DateTime::from_millis(1),
            written_at: DateTime::from_millis(at),
            silent_millis: 0,
        };
        let last = LastBeat::first(written(1), start);
        let seconds = Duration::from_secs;
        let patience = Patience {
            late: seconds(20),
            out_of_touch: seconds(15),
        };
        // Sent, acknowledged, row written at, and what it is then. Stale after 30 s, a heartbeat every 10 s.
        let table = [
            (10, 10, 1, None),
            (10, 19, 1, None),
            (10, 20, 1, Some(Late::Silent(seconds(20)))),
            (16, 20, 1, Some(Late::Silent(seconds(20)))),
            (90, 90, 1, Some(Late::Silent(seconds(90)))),
            (1, 1, 2, Some(Late::WrittenAnew)),
            (90, 90, 2, Some(Late::WrittenAnew)),
        ];
        for (sent, acknowledged, at, expected) in table {
            let sent = start + seconds(sent);
            let now = start + seconds(acknowledged);
            let (next, late) = last.then(written(at), sent, now, patience);
            assert_eq!(late, expected, "{sent:?} {acknowledged} {at}");
            assert_eq!(next.sent, sent);
            let (_, again) = next.then(written(at), now, now, patience);
            assert_eq!(again, None, "told once");
        }
    }

    #[test]
    fn answer_that_overtakes_does_not_move_the_last_beat_back() {
        let start = BootInstant::now();
        let written = Written {
            status: PodStatus::Running,
            booted_at: DateTime::from_millis(1),
            written_at: DateTime::from_millis(1),
            silent_millis: 0,
        };
        let later = start + Duration::from_secs(5);
        let last = LastBeat::first(written, later);
        let patience = Patience {
            late: Duration::from_secs(20),
            out_of_touch: Duration::from_secs(15),
        };
        let (next, _) = last.then(written, start, later, patience);
        assert_eq!(next.sent, later);
    }

    #[test]
    fn a_clock_that_was_put_forward_makes_everybody_late_and_out_of_touch() {
        let start = BootInstant::now();
        let seconds = Duration::from_secs;
        let patience = Patience {
            late: seconds(20),
            out_of_touch: seconds(15),
        };
        let written = |silent_millis| Written {
            status: PodStatus::Running,
            booted_at: DateTime::from_millis(1),
            written_at: DateTime::from_millis(1),
            silent_millis,
        };
        let last = LastBeat {
            in_touch: start,
            ..LastBeat::first(written(0), start)
        };
        let now = start + seconds(10);
        let (_, late) = last.then(written(10_000), now, now, patience);
        assert_eq!(late, None);
        let (next, late) = last.then(written(50_000), now, now, patience);
        assert_eq!(late, Some(Late::Silent(seconds(50))));
        assert_eq!(next.in_touch_for(now, seconds(15)), Duration::ZERO);
    }

    #[test]
    fn a_long_silence_of_the_store_begins_the_time_in_touch_anew() {
        let seconds = Duration::from_secs;
        let patience = Patience {
            late: seconds(20),
            out_of_touch: seconds(15),
        };
        let written = Written {
            status: PodStatus::Running,
            booted_at: DateTime::from_millis(1),
            written_at: DateTime::from_millis(1),
            silent_millis: 0,
        };
        // When each beat was sent and acknowledged, and for how long the store has been in touch by then.
        let table = [(10, 11, 11), (20, 24, 24), (34, 35, 0), (45, 46, 11)];
        let start = BootInstant::now();
        let mut last = LastBeat {
            in_touch: start,
            ..LastBeat::first(written, start)
        };
        for (sent, acknowledged, expected) in table {
            let now = start + seconds(acknowledged);
            (last, _) = last.then(written, start + seconds(sent), now, patience);
            let in_touch = last.in_touch_for(now, patience.out_of_touch);
            assert_eq!(in_touch, seconds(expected), "{sent} {acknowledged}");
        }
        // Nor is it in touch while nothing is heard.
        let now = start + seconds(60);
        let in_touch = last.in_touch_for(now, patience.out_of_touch);
        assert_eq!(in_touch, Duration::ZERO);
    }
}
