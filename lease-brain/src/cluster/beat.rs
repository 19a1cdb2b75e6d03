//! When a heartbeat came too late.

use std::time::Duration;

use mongodb::bson::DateTime;

use super::rows::Written;
use crate::supervise::BootInstant;

/// The last heartbeat that was acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastBeat {
    /// When it was sent: the server may have applied it that early.
    pub(super) sent: BootInstant,
    pub(super) booted_at: DateTime,
    pub(super) written_at: DateTime,
}

/// Why others may have taken this pod for dead before the heartbeat that was just acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// Nothing was acknowledged for so long.
    Silent(Duration),
    /// The row was gone, or had been marked as stopped by another pod.
    WrittenAnew,
}

impl LastBeat {
    /// The first one, which had none before it.
    pub(super) fn first(written: Written, sent: BootInstant) -> Self {
        Self {
            sent,
            booted_at: written.booted_at,
            written_at: written.written_at,
        }
    }

    /// What follows from another acknowledgement, that came at `now` to what was sent at `sent`.
    ///
    /// The silence is counted from sending to acknowledgement, the longest that it can have been for others; one
    /// heartbeat less than their patience is close enough to be asked about.
    pub(super) fn then(
        self,
        written: Written,
        sent: BootInstant,
        now: BootInstant,
        enough: Duration,
    ) -> (Self, Option<Late>) {
        let silence = now - self.sent;
        let late = if written.written_at != self.written_at {
            Some(Late::WrittenAnew)
        } else if silence >= enough {
            Some(Late::Silent(silence))
        } else {
            None
        };
        let next = Self {
            sent: self.sent.max(sent),
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
        };
        let last = LastBeat::first(written(1), start);
        let seconds = Duration::from_secs;
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
            let (next, late) = last.then(written(at), sent, now, seconds(20));
            assert_eq!(late, expected, "{sent:?} {acknowledged} {at}");
            assert_eq!(next.sent, sent);
            let (_, again) = next.then(written(at), now, now, seconds(20));
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
        };
        let later = start + Duration::from_secs(5);
        let last = LastBeat::first(written, later);
        let (next, _) = last.then(written, start, later, Duration::from_secs(20));
        assert_eq!(next.sent, later);
    }
}
