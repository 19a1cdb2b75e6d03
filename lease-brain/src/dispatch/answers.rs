//! What came of the handlers that other pods asked for: an answer may be lost, and who asks again must not have the handler
//! run once more for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lease_shared::Cleanups;
use supervise::BootInstant;

use super::runner::Outcome;

/// How many are remembered. More handlers than that do not end within the time of a claim.
const REMEMBERED: usize = 1024;

/// The outcomes of this pod's handlers, by the claim that they ran under, for as long as anybody asks under it.
#[derive(Debug, Clone, Default)]
pub(super) struct Answers(Arc<Mutex<VecDeque<Answer>>>);

#[derive(Debug)]
struct Answer {
    claim: String,
    outcome: Outcome,
    /// When nobody has the claim any more.
    until: BootInstant,
}

impl Answers {
    /// What came of the handler that ran under this claim, if it has ended.
    pub(super) fn under(&self, claim: &str) -> Option<Outcome> {
        let all = self.all();
        let answer = all.iter().find(|answer| answer.claim == claim)?;
        Some(answer.outcome.clone())
    }

    pub(super) fn remember(&self, claim: &str, outcome: &Outcome) {
        let mut all = self.all();
        all.retain(|answer| !answer.until.has_passed() && answer.claim != claim);
        if all.len() == REMEMBERED {
            all.pop_front();
        }
        all.push_back(Answer {
            claim: claim.to_owned(),
            outcome: outcome.clone(),
            until: BootInstant::now() + Cleanups::CLAIM,
        });
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Answer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_known_under_its_claim_and_no_other() {
        let answers = Answers::default();
        let failed = Err("the plug is stuck".to_owned());
        answers.remember("a", &failed);
        assert_eq!(answers.under("a"), Some(failed));
        assert_eq!(answers.under("b"), None);
        answers.remember("a", &Ok(()));
        assert_eq!(answers.under("a"), Some(Ok(())));
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let answers = Answers::default();
        for claim in 0..=REMEMBERED {
            answers.remember(&claim.to_string(), &Ok(()));
        }
        assert_eq!(answers.under("0"), None);
        assert_eq!(answers.under("1"), Some(Ok(())));
    }
}
