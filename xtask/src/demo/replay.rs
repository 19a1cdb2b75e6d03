//! What the journal proves.

use std::collections::BTreeMap;

use super::LEASE;
use super::journal::{Entry, Event, Line};

/// The journal, replayed.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) granted: usize,
    /// How often somebody entered above a cap.
    pub(crate) over_cap: usize,
    pub(crate) max_in_use: BTreeMap<String, usize>,
    pub(crate) cap: BTreeMap<String, usize>,
}

pub(crate) fn replay(lines: &[Line]) -> Replay {
    let mut replay = Replay::default();
    let mut in_use: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines {
        let entered = line.event == Event::Enter;
        replay.granted += usize::from(entered);
        let mut over = false;
        for (key, cap) in keys(&line.entry) {
            let count = in_use.entry(key.clone()).or_default();
            *count = if entered {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
            over |= *count > cap;
            let most = replay.max_in_use.entry(key.clone()).or_default();
            *most = (*most).max(*count);
            replay.cap.insert(key, cap);
        }
        replay.over_cap += usize::from(entered && over);
    }
    replay
}

impl Replay {
    /// Has each level been at its cap somewhere? Else it has not been shown to bind.
    pub(crate) fn each_level_was_full(&self) -> bool {
        let full = |level: &str| {
            let of_level = self.cap.iter().filter(|(key, _)| key.contains(level));
            of_level
                .into_iter()
                .any(|(key, cap)| self.max_in_use.get(key) == Some(cap))
        };
        ["|user|", "|project|", "|tenant|", "|global|"]
            .into_iter()
            .all(full)
    }
}

/// Who has entered and neither left nor gone.
pub(crate) fn inside(lines: &[Line]) -> Vec<Entry> {
    let mut inside: Vec<Entry> = Vec::new();
    for line in lines {
        match line.event {
            Event::Enter => inside.push(line.entry.clone()),
            Event::Leave | Event::Gone => inside.retain(|entry| entry.token != line.entry.token),
        }
    }
    inside
}

/// Has the same user entered again since?
pub(crate) fn entered_after(lines: &[Line], victim: &Entry) -> bool {
    let since = lines
        .iter()
        .skip_while(|line| line.entry.token != victim.token || line.event == Event::Enter);
    since
        .skip(1)
        .any(|line| line.event == Event::Enter && line.entry.who() == victim.who())
}

/// The counters that an entry falls under, by the caps that the demo defines.
fn keys(entry: &Entry) -> [(String, usize); 4] {
    let Entry {
        tenant,
        project,
        user,
        ..
    } = entry;
    [
        (format!("{LEASE}|user|{tenant}/{user}"), 1),
        (format!("{LEASE}|project|{tenant}/{project}"), 2),
        (format!("{LEASE}|tenant|{tenant}"), 3),
        (format!("{LEASE}|global|"), 4),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(token: &str, project: &str, user: &str) -> Entry {
        Entry {
            token: token.to_owned(),
            tenant: "acme".to_owned(),
            project: project.to_owned(),
            user: user.to_owned(),
            contender: 0,
            slot: 0,
            pid: 1,
            guardian: 1,
        }
    }

    #[test]
    fn two_of_one_user_inside_are_over_the_cap() {
        let (a, b) = (entry("a", "thesis", "ada"), entry("b", "paper", "ada"));
        let apart = [a.enter(), a.leave(), b.enter(), b.leave()];
        assert_eq!((replay(&apart).over_cap, replay(&apart).granted), (0, 2));
        let together = [a.enter(), b.enter(), a.leave(), b.leave()];
        let seen = replay(&together);
        assert_eq!(
            (seen.over_cap, seen.max_in_use["compile|user|acme/ada"]),
            (1, 2)
        );
        assert_eq!(seen.max_in_use["compile|project|acme/thesis"], 1);
        assert!(!seen.each_level_was_full(), "two projects with one each");
    }

    #[test]
    fn who_is_gone_is_not_inside_and_came_back_only_with_a_new_entry() {
        let (a, b) = (entry("a", "thesis", "ada"), entry("b", "thesis", "ada"));
        let lines = [a.enter(), a.gone(), b.enter()];
        assert_eq!(inside(&lines[..2]), []);
        assert!(!entered_after(&lines[..2], &a));
        assert!(entered_after(&lines, &a));
    }
}
