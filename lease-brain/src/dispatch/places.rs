//! Who may begin next: a pod runs a limited number of clean-ups at a time, and neither one lease type nor, within it, one
//! tenant must keep the others out.

use std::collections::btree_map::Entry;
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
    waiting: BTreeMap<LeaseType, VecDeque<Due>>,
    /// How many of each type and tenant.
    running: BTreeMap<(LeaseType, String), usize>,
    /// What waits or runs, so that it is not begun twice.
    known: HashSet<LeaseToken>,
}

impl Places {
    /// Takes a clean-up into the queue, unless it is there or there are too many.
    pub(crate) fn add(&mut self, due: Due) {
        let waiting = self.waiting.entry(due.lease_type.clone()).or_default();
        if waiting.len() < WAITING && self.known.insert(due.token.clone()) {
            waiting.push_back(due);
        }
    }

    /// The next that may begin: of the type that has the fewest running, and in it of the tenant that has.
    pub(crate) fn next(&mut self) -> Option<Due> {
        if self.running.values().sum::<usize>() >= PLACES {
            return None;
        }
        let waiting = self.waiting.iter().filter(|(_, due)| !due.is_empty());
        let types: Vec<LeaseType> = waiting.map(|(lease_type, _)| lease_type.clone()).collect();
        let limit = if types.len() > 1 { SHARE } else { ALONE };
        let lease_type = types
            .into_iter()
            .filter(|lease_type| self.running_of(lease_type) < limit)
            .min_by_key(|lease_type| self.running_of(lease_type))?;
        let waiting = self.waiting.get(&lease_type)?;
        let running = |due: &Due| {
            let key = (due.lease_type.clone(), due.tenant.clone());
            self.running.get(&key).copied().unwrap_or(0)
        };
        // The first of those, so that among themselves they go in turn.
        let (at, _) = waiting
            .iter()
            .enumerate()
            .min_by_key(|(at, due)| (running(due), *at))?;
        let due = self.waiting.get_mut(&lease_type)?.remove(at)?;
        let key = (due.lease_type.clone(), due.tenant.clone());
        *self.running.entry(key).or_default() += 1;
        Some(due)
    }

    /// One has ended, whatever came of it.
    pub(crate) fn ended(&mut self, due: &Due) {
        self.known.remove(&due.token);
        let key = (due.lease_type.clone(), due.tenant.clone());
        if let Entry::Occupied(mut running) = self.running.entry(key) {
            *running.get_mut() -= 1;
            if *running.get() == 0 {
                running.remove();
            }
        }
    }

    fn running_of(&self, lease_type: &LeaseType) -> usize {
        let of_type = self.running.iter().filter(|((of, _), _)| of == lease_type);
        of_type.map(|(_, running)| running).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(lease_type: &str) -> Due {
        due_of(lease_type, "acme")
    }

    fn due_of(lease_type: &str, tenant: &str) -> Due {
        Due {
            tenant: tenant.to_owned(),
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
    fn a_tenant_that_comes_later_has_the_next_place() {
        let mut places = Places::default();
        fill(&mut places, "hangs", 100);
        let first = begin_all(&mut places);
        let later = due_of("hangs", "umbrella");
        places.add(later.clone());
        places.ended(&first[0]);
        assert_eq!(places.next(), Some(later));
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
