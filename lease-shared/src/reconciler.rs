//! Frees the slots that nobody holds, and shows where counters and holders differ otherwise.
//!
//! A token without a holder document is what a crash leaves between the end of a holder and its unbooking, or what a
//! late copy of a booking brings. It keeps a slot until it is found here (or by an acquirer that finds the counter full)
//! and harms nothing else. No age matters: a token whose holder is gone will never be held again.

use std::collections::HashMap;

use mongodb::{ClientSession, Database};
use serde::Serialize;

use crate::metrics;
use crate::service::wait::Lines;
use crate::store::documents::{Claim, CounterDoc, is_orphan};
use crate::store::{LeaseStore, Read, StoreError, deadline};

/// How many counters are looked at together.
const PAGE: i64 = 50;
/// How many tokens' holders are looked up together.
const TOKENS: usize = 1000;

/// Recomputes which tokens may stand in the counters.
#[derive(Debug, Clone)]
pub struct Reconciler {
    store: LeaseStore,
    lines: Lines,
}

/// What a reconcile found, and did unless it was a dry run.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReconcileReport {
    /// Was nothing changed?
    pub dry_run: bool,
    /// How many counters were looked at.
    pub counters: usize,
    /// Orphan tokens, taken out of their counters.
    pub orphans: Vec<Orphan>,
    /// Counters that nobody books, removed.
    pub removed: Vec<String>,
    /// What differs otherwise. It is shown, not mended.
    pub drift: Vec<Drift>,
}

/// A token in a counter that no holder stands behind.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Orphan {
    /// The counter.
    pub counter: String,
    /// The token.
    pub token: String,
}

/// A difference between a counter and the holders.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Drift {
    /// The counter.
    pub counter: String,
    /// What is wrong with it.
    pub problem: String,
}

/// One counter compared with its holders.
#[derive(Debug, Default, PartialEq, Eq)]
struct Comparison<'a> {
    orphans: Vec<&'a str>,
    problems: Vec<String>,
}

/// Says which tokens are orphans, and what else does not add up.
fn compare<'a>(counter: &'a CounterDoc, claims: &HashMap<String, Claim>) -> Comparison<'a> {
    let mut comparison = Comparison::default();
    for token in &counter.tokens {
        let claim = claims.get(token);
        if let Some(fault) = claim.and_then(|claim| claim.broken) {
            let problem = format!(
                "the holder of lease {token} is broken, so it never expires: {fault}; mend or delete that document"
            );
            comparison.problems.push(problem);
            continue;
        }
        if is_orphan(claim.map(|claim| claim.standing)) {
            comparison.orphans.push(token);
        } else if claim.is_some_and(|claim| !claim.keys.contains(&counter.key)) {
            let problem = format!("lease {token} is booked here and does not say so");
            comparison.problems.push(problem);
        }
    }
    if counter.count != counter.tokens.len() as i64 {
        let (count, tokens) = (counter.count, counter.tokens.len());
        let problem = format!("count is {count} but {tokens} tokens are listed");
        comparison.problems.push(problem);
    }
    comparison
}

impl Reconciler {
    /// A reconciler on a database, without a service.
    pub fn new(database: Database) -> Self {
        Self::of(LeaseStore::new(database), Lines::default())
    }

    pub(crate) fn of(store: LeaseStore, lines: Lines) -> Self {
        Self { store, lines }
    }

    /// Goes through all counters once. Any number of processes may do so at once, beside any traffic.
    ///
    /// # Errors
    /// The store cannot be asked. What was corrected until then stays so.
    pub async fn reconcile(&self, dry_run: bool) -> Result<ReconcileReport, StoreError> {
        let mut report = ReconcileReport {
            dry_run,
            ..ReconcileReport::default()
        };
        let mut session = self.store.ordered_reads().await?;
        let mut after = String::new();
        loop {
            // Tokens first, holders afterwards: a holder that comes in between then has no token in this page yet, while
            // in the other order its token would look like an orphan.
            let read = Read::Committed(&mut session);
            let page = self
                .store
                .counters_after(&after, PAGE, read, deadline())
                .await?;
            let Some(last) = page.last() else { break };
            after = match last {
                Ok(counter) => counter.key.clone(),
                Err(raw) => raw.get_str("_id").unwrap_or(&after).to_owned(),
            };
            report.counters += page.len();
            let mut counters = Vec::new();
            for counter in page {
                match counter {
                    Ok(counter) => counters.push(counter),
                    Err(raw) => report.drift.push(Drift {
                        counter: match raw.get_str("_id") {
                            Ok(key) => key.to_owned(),
                            Err(_) => raw.get("_id").map(ToString::to_string).unwrap_or_default(),
                        },
                        problem: "the document is not a counter; look at it by hand".to_owned(),
                    }),
                }
            }
            self.correct_page(&counters, &mut session, &mut report)
                .await?;
        }
        // A counter that is gone although leases book it.
        for key in self.store.missing_counters(deadline()).await? {
            self.find_unbooked(&key, &mut session, &mut report).await?;
        }
        report.drift.sort_by(|a, b| a.counter.cmp(&b.counter));
        Ok(report)
    }

    /// Three commands for a page on which everything adds up: its counters were one, their tokens' holders and the
    /// holders that say they book them are the others.
    async fn correct_page(
        &self,
        counters: &[CounterDoc],
        session: &mut ClientSession,
        report: &mut ReconcileReport,
    ) -> Result<(), StoreError> {
        let tokens: Vec<String> = counters
            .iter()
            .flat_map(|counter| counter.tokens.iter().cloned())
            .collect();
        let mut claims = HashMap::new();
        for tokens in tokens.chunks(TOKENS) {
            claims.extend(self.store.claims(tokens, session, deadline()).await?);
        }
        let mut empty = Vec::new();
        for counter in counters {
            if self.correct(counter, &claims, report).await? {
                empty.push(counter.key.clone());
            }
        }
        self.remove(empty, report).await?;
        let keys: Vec<&str> = counters
            .iter()
            .map(|counter| counter.key.as_str())
            .collect();
        let held = self.store.claims_on(&keys, session, deadline()).await?;
        for counter in counters {
            let not_in = |(token, claim): (&String, &Claim)| {
                claim.keys.contains(&counter.key) && !counter.tokens.contains(token)
            };
            // It may have come in since the counter was read.
            if held.iter().any(not_in) {
                self.find_unbooked(&counter.key, session, report).await?;
            }
        }
        Ok(())
    }

    /// Frees the orphans of one counter, and says whether nobody books it then.
    async fn correct(
        &self,
        counter: &CounterDoc,
        claims: &HashMap<String, Claim>,
        report: &mut ReconcileReport,
    ) -> Result<bool, StoreError> {
        let Comparison { orphans, problems } = compare(counter, claims);
        let drift = |problem| Drift {
            counter: counter.key.clone(),
            problem,
        };
        report.drift.extend(problems.into_iter().map(drift));
        if !orphans.is_empty() {
            let freed = report.dry_run
                || self
                    .store
                    .unbook_orphans(&counter.key, &orphans, deadline())
                    .await?;
            if freed {
                report.orphans.extend(orphans.iter().map(|token| Orphan {
                    counter: counter.key.clone(),
                    token: (*token).to_owned(),
                }));
            }
            if freed && !report.dry_run {
                metrics::corrected(orphans.len());
                self.lines.call(std::slice::from_ref(&counter.key));
            }
        }
        Ok(orphans.len() == counter.tokens.len())
    }

    async fn remove(
        &self,
        mut empty: Vec<String>,
        report: &mut ReconcileReport,
    ) -> Result<(), StoreError> {
        if !empty.is_empty() && !report.dry_run {
            let removed = self.store.remove_empty(&empty, deadline()).await?;
            // Somebody booked one meanwhile.
            if removed < empty.len() {
                let there = self.store.which_are_there(&empty, deadline()).await?;
                empty.retain(|key| !there.contains(key));
            }
        }
        report.removed.extend(empty);
        Ok(())
    }

    /// Shows the leases that are held and say that they book a counter, whose token is not in it: more may be held there
    /// than its cap allows. A lease counts only if it was held before the counter was read and still is afterwards.
    async fn find_unbooked(
        &self,
        key: &str,
        session: &mut ClientSession,
        report: &mut ReconcileReport,
    ) -> Result<(), StoreError> {
        let before = self.store.claims_on(&[key], session, deadline()).await?;
        if before.is_empty() {
            return Ok(());
        }
        let counter = self.store.counter(key, session, deadline()).await?;
        let tokens = counter.map(|counter| counter.tokens).unwrap_or_default();
        let mut unbooked: Vec<_> = before
            .into_keys()
            .filter(|token| !tokens.contains(token))
            .collect();
        if unbooked.is_empty() {
            return Ok(());
        }
        let after = self.store.claims_on(&[key], session, deadline()).await?;
        unbooked.retain(|token| after.contains_key(token));
        unbooked.sort();
        report.drift.extend(unbooked.into_iter().map(|token| Drift {
            counter: key.to_owned(),
            problem: format!("lease {token} is held but not booked here; revoke it or let it end"),
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::DateTime;

    use super::*;
    use crate::level::Level;
    use crate::store::documents::Standing;

    fn counter(count: i64, tokens: &[&str]) -> CounterDoc {
        CounterDoc {
            key: "pdf|global|".to_owned(),
            resource: "pdf".to_owned(),
            level: Level::Global,
            tenant_id: None,
            project_id: None,
            user_id: None,
            lease: "pdf".to_owned(),
            cap: 3,
            count,
            tokens: tokens.iter().map(|token| (*token).to_owned()).collect(),
            updated_at: DateTime::MIN,
        }
    }

    fn claim(token: &str, standing: Standing, key: &str) -> (String, Claim) {
        let keys = vec![key.to_owned()];
        let claim = Claim {
            standing,
            keys,
            broken: None,
        };
        (token.to_owned(), claim)
    }

    #[test]
    fn a_token_is_an_orphan_without_a_holder_or_with_a_returned_slot() {
        let counter = counter(3, &["held", "returned", "gone"]);
        let claims = HashMap::from([
            claim("held", Standing::Books, "pdf|global|"),
            claim("returned", Standing::Returned, "pdf|global|"),
        ]);
        let found = compare(&counter, &claims);
        assert_eq!(
            (found.orphans, found.problems.len()),
            (vec!["returned", "gone"], 0)
        );
    }

    #[test]
    fn what_does_not_add_up_is_a_problem_and_no_orphan() {
        let counter = counter(3, &["held"]);
        let claims = HashMap::from([claim("held", Standing::Books, "other|global|")]);
        let found = compare(&counter, &claims);
        assert_eq!((found.orphans.len(), found.problems.len()), (0, 2));
    }
}
