//! Who may begin next: a pod runs a limited number of clean-ups at a time, and one lease type must not keep the others out.

use std::collections::{BTreeMap, HashSet, VecDeque};

use lease_shared::{Due, LeaseToken, LeaseType};

/// How many clean-ups a pod runs at a time.
pub(crate) const PLACES: usize = 16;
/// How many of these one type may have while others wait.
const SHARE: usize = PLACES / 4;
/// How many one type may have while none waits: a type that comes then finds its own share free, however long the
/// handlers of the first hang.
pub(crate) const ALONE: usize = PLACES - SHARE;
/// How many of a type are kept in mind. The rest stay where they are, and are found again.
pub(crate) const WAITING: usize = 256;

/// What waits, and what runs.
#[derive(Debug, Default)]
pub(crate) struct Places {
    waiting: BTreeMap<LeaseType, VecDeque<LeaseToken>>,
    running: BTreeMap<LeaseType, usize>,
    /// What waits or runs, so that it is not begun twice.
    known: HashSet<LeaseToken>,
}

impl Places {
    /// Takes a clean-up into the queue, unless it is there or there are too many.
    pub(crate) fn add(&mut self, due: Due) {
        let waiting = self.waiting.entry(due.lease_type).or_default();
        if waiting.len() < WAITING && self.known.insert(due.token.clone()) {
            waiting.push_back(due.token);
        }
    }

    /// The next that may begin, of the type that has the fewest running.
    pub(crate) fn next(&mut self) -> Option<Due> {
        if self.running.values().sum::<usize>() >= PLACES {
            return None;
        }
        let types: Vec<LeaseType> = self
            .waiting
            .iter()
            .filter(|(_, tokens)| !tokens.is_empty())
            .map(|(lease_type, _)| lease_type.clone())
            .collect();
        let limit = if types.len() > 1 { SHARE } else { ALONE };
        let lease_type = types
            .into_iter()
            .filter(|lease_type| self.running_of(lease_type) < limit)
            .min_by_key(|lease_type| self.running_of(lease_type))?;
        let token = self.waiting.get_mut(&lease_type)?.pop_front()?;
        *self.running.entry(lease_type.clone()).or_default() += 1;
        Some(Due { token, lease_type })
    }

    /// One has ended, whatever came of it.
    pub(crate) fn ended(&mut self, due: &Due) {
        self.known.remove(&due.token);
        if let Some(running) = self.running.get_mut(&due.lease_type) {
            *running = running.saturating_sub(1);
        }
    }

    fn running_of(&self, lease_type: &LeaseType) -> usize {
        self.running.get(lease_type).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(lease_type: &str) -> Due {
        Due {
            token: LeaseToken::new(uuid::Uuid::new_v4().simple().to_string()).unwrap(),
            lease_type: LeaseType::new(lease_type).unwrap(),
        }
    }

    fn fill(places: &mut Places, lease_type: &str, count: usize) {
        for _ in 0..count {
            places.add(due(lease_type));
        }
    }

    fn begin_all(places: &mut Places) -> Vec<Due> {
        std::iter::from_fn(|| places.next()).collect()
    }

    fn count(begun: &[Due], lease_type: &str) -> usize {
        let of_type = |due: &&Due| due.lease_type.as_str() == lease_type;
        begun.iter().filter(of_type).count()
    }

    #[test]
    fn a_type_alone_leaves_room_for_one_that_comes_later() {
        let mut places = Places::default();
        fill(&mut places, "hangs", 100);
        assert_eq!(count(&begin_all(&mut places), "hangs"), ALONE);
        fill(&mut places, "other", 100);
        assert_eq!(count(&begin_all(&mut places), "other"), SHARE);
    }

    #[test]
    fn while_others_wait_none_has_more_than_a_quarter() {
        let mut places = Places::default();
        for lease_type in ["a", "b", "c", "d", "e"] {
            fill(&mut places, lease_type, 50);
        }
        let begun = begin_all(&mut places);
        assert_eq!(begun.len(), PLACES);
        for lease_type in ["a", "b", "c", "d", "e"] {
            assert!(count(&begun, lease_type) <= SHARE, "{lease_type}");
            assert!(count(&begun, lease_type) >= SHARE - 1, "{lease_type}");
        }
    }

    #[test]
    fn what_has_ended_makes_room_and_may_come_again() {
        let mut places = Places::default();
        let one = due("a");
        places.add(one.clone());
        places.add(one.clone());
        assert_eq!(begin_all(&mut places), std::slice::from_ref(&one));
        places.add(one.clone());
        assert_eq!(begin_all(&mut places), [], "it runs");
        places.ended(&one);
        places.add(one.clone());
        assert_eq!(begin_all(&mut places), [one]);
    }
}
