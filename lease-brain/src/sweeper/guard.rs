//! Whether dead pods are to be believed dead: when most look dead at once, it is the store or the network.

use std::collections::BTreeSet;

/// How many rounds in turn leases of dead pods are left alone, at most.
const ROUNDS: u32 = 3;
/// Among fewer pods than this, more than half is no news.
const PODS: usize = 3;

/// Remembers who was alive. Pods count by their nodes' names: one that was started again under its name is not missing,
/// however often it crashes.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    alive_before: BTreeSet<String>,
    waited: u32,
}

/// What is known of the pods in one round, by their nodes' names.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    /// Those that are alive.
    pub(crate) alive: BTreeSet<String>,
    /// Those that said that they stop.
    pub(crate) stopped: BTreeSet<String>,
}

/// Why leases of dead pods are left alone in this round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldBack {
    pub(crate) missing: usize,
    pub(crate) of: usize,
    pub(crate) round: u32,
}

impl Guard {
    /// Judges one round, one that an operator asked for as well. Nothing: the dead are to be believed dead.
    pub(crate) fn judge(&mut self, roll: Roll) -> Option<HeldBack> {
        let counted: BTreeSet<_> = self.alive_before.difference(&roll.stopped).collect();
        let missing = counted
            .iter()
            .filter(|name| !roll.alive.contains(**name))
            .count();
        let of = counted.len();
        if of >= PODS && missing * 2 > of && self.waited < ROUNDS {
            self.waited += 1;
            // Those who were alive before the trouble are still the measure.
            return Some(HeldBack {
                missing,
                of,
                round: self.waited,
            });
        }
        self.waited = 0;
        self.alive_before = roll.alive;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &str) -> BTreeSet<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    /// Alive and stopped in each round, and whether it is held back.
    #[track_caller]
    fn check(rounds: &[(&str, &str, bool)]) {
        let mut guard = Guard::default();
        for (round, (alive, stopped, held_back)) in rounds.iter().enumerate() {
            let roll = Roll {
                alive: names(alive),
                stopped: names(stopped),
            };
            assert_eq!(guard.judge(roll).is_some(), *held_back, "round {round}");
        }
    }

    #[test]
    fn more_than_half_at_once_is_held_back_for_three_rounds() {
        check(&[
            ("a b c", "", false),
            ("a", "", true),
            ("a", "", true),
            ("a", "", true),
            ("a", "", false),
            ("a", "", false),
        ]);
    }

    #[test]
    fn who_comes_back_ends_it() {
        check(&[
            ("a b c", "", false),
            ("a", "", true),
            ("a b c", "", false),
            ("a", "", true),
        ]);
    }

    #[test]
    fn half_or_less_is_believed() {
        check(&[("a b c d", "", false), ("a b", "", false)]);
        check(&[("a b c", "", false), ("a b", "", false)]);
    }

    #[test]
    fn two_pods_are_too_few_to_judge() {
        check(&[("a b", "", false), ("", "", false)]);
    }

    #[test]
    fn a_pod_that_crashes_again_and_again_under_its_name_does_not_count() {
        check(&[
            ("a b c", "", false),
            ("a b c", "", false),
            ("a b", "", false),
            ("a b c", "", false),
        ]);
    }

    #[test]
    fn a_rolling_restart_does_not_count() {
        check(&[
            ("a b c", "", false),
            ("a", "b c", false),
            ("b c", "a", false),
            ("a b c", "", false),
        ]);
    }
}
