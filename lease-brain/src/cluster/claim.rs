//! How a pod comes to its node name when another has it.

use std::time::Duration;

use lease_shared::PodId;
use mongodb::bson::DateTime;

use super::row::{PodRow, since};

/// What was seen of the pod that has the name.
#[derive(Debug, Default)]
pub(super) struct Claim {
    other: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    pod: PodId,
    first_look: DateTime,
    last_beat: DateTime,
    beats: u32,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is dead by its own promise: its name can be taken.
    Retire,
    /// It may have crashed a moment ago: look again after this.
    Wait(Duration),
    /// It goes on saying that it is there.
    Lives,
}

/// One heartbeat may be a late copy of a process that is gone; two are none.
const LIVING: u32 = 2;

impl Claim {
    /// Judges the pod as it is now.
    ///
    /// It is given the time after which it would be stale had it crashed just before the first look. What was not
    /// stale by then, and was heard more than once, lives.
    pub(super) fn look(&mut self, row: &PodRow) -> Verdict {
        if row.is_stale() {
            return Verdict::Retire;
        }
        let seen = match self.other.take() {
            Some(mut seen) if seen.pod == row.pod => {
                if seen.last_beat != row.last_heartbeat_at {
                    seen.last_beat = row.last_heartbeat_at;
                    seen.beats += 1;
                }
                seen
            }
            _ => Seen {
                pod: row.pod.clone(),
                first_look: row.now,
                last_beat: row.last_heartbeat_at,
                beats: 0,
            },
        };
        let patient = since(seen.first_look, row.now) <= row.promise();
        let living = seen.beats >= LIVING && !patient;
        self.other = Some(seen);
        if living {
            return Verdict::Lives;
        }
        // A tenth of its promise, so that a name that comes free is noticed, and neither a hurry nor an age.
        let look_again =
            (row.promise() / 10).clamp(Duration::from_millis(20), Duration::from_secs(1));
        let until_stale = row.promise().saturating_sub(row.silence());
        Verdict::Wait(look_again.min(until_stale + Duration::from_millis(5)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::row::PodStatus;

    fn row(pod: &str, last_beat: i64, now: i64) -> PodRow {
        PodRow {
            pod: PodId::new(pod).unwrap(),
            cluster_id: "default".to_owned(),
            node_name: "a".to_owned(),
            endpoint: None,
            status: PodStatus::Running,
            booted_at: DateTime::from_millis(0),
            last_heartbeat_at: DateTime::from_millis(last_beat),
            stale_millis: 30_000,
            written_at: DateTime::from_millis(0),
            version: String::new(),
            labels: Default::default(),
            now: DateTime::from_millis(now),
        }
    }

    /// Each look: last heartbeat and server time in seconds, and R(etire), W(ait) or L(ives).
    #[track_caller]
    fn check(looks: &[(i64, i64, char)]) {
        let mut claim = Claim::default();
        for (last_beat, now, expected) in looks {
            let verdict = match claim.look(&row("x", last_beat * 1000, now * 1000)) {
                Verdict::Retire => 'R',
                Verdict::Wait(_) => 'W',
                Verdict::Lives => 'L',
            };
            assert_eq!(verdict, *expected, "{last_beat} {now} of {looks:?}");
        }
    }

    #[test]
    fn name_is_waited_for_until_its_pod_is_stale_or_known_to_live() {
        // Dead for long; dead a moment ago; dead, with a last heartbeat that came late.
        check(&[(0, 31, 'R')]);
        check(&[(0, 0, 'W'), (0, 30, 'W'), (0, 31, 'R')]);
        check(&[(0, 1, 'W'), (2, 3, 'W'), (2, 32, 'W'), (2, 33, 'R')]);
        // It beats on, but is given its time; only then it lives.
        check(&[
            (0, 1, 'W'),
            (10, 11, 'W'),
            (20, 21, 'W'),
            (30, 31, 'W'),
            (30, 32, 'L'),
        ]);
    }

    #[test]
    fn another_pod_under_the_name_is_given_its_own_time() {
        let mut claim = Claim::default();
        claim.look(&row("x", 0, 0));
        claim.look(&row("x", 10_000, 10_000));
        claim.look(&row("x", 20_000, 20_000));
        let verdict = claim.look(&row("y", 31_000, 31_000));
        assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    }

    #[test]
    fn next_look_comes_when_it_can_tell_something() {
        let mut claim = Claim::default();
        let wait = |millis| Verdict::Wait(Duration::from_millis(millis));
        assert_eq!(claim.look(&row("x", 0, 0)), wait(1000));
        assert_eq!(claim.look(&row("x", 0, 29_900)), wait(105));
    }
}
