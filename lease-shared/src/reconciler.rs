//! Frees the slots that nobody holds, and shows where counters and holders differ otherwise.
//!
//! A token without a holder document is what a crash leaves between the end of a holder and its unbooking, or what a
//! late copy of a booking brings. It keeps a slot until it is found here (or by an acquirer that finds the counter full)
//! and harms nothing else. No age matters: a token whose holder is gone will never be held again.

use std::collections::HashMap;

use mongodb::Database;
use serde::Serialize;
use tokio::time::Instant;

use crate::metrics;
use crate::revocation::SlotReturn;
use crate::service::wait::Lines;
use crate::store::documents::{CounterDoc, HolderDoc, HolderState};
use crate::store::{LeaseStore, OPERATION, Read, StoreError};

/// How many counters are looked at together.
const PAGE: i64 = 50;

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

/// What a holder document says about its token's place in the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It books what it lists, or may be about to.
    Books,
    /// It was revoked, and its slots come back at once.
    Returned,
}

impl HolderDoc {
    pub(crate) fn standing(&self) -> Standing {
        match (self.state, self.slot_return) {
            (HolderState::Revoking, SlotReturn::AtOnce) => Standing::Returned,
            _ => Standing::Books,
        }
    }
}

/// May a token be taken out of a counter? Only if its holder is gone, or its slot is to come back at once.
pub(crate) fn is_orphan(holder: Option<Standing>) -> bool {
    matches!(holder, None | Some(Standing::Returned))
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
        let mut after = String::new();
        loop {
            // Tokens first, holders afterwards: a holder that comes in between then has no token in this page yet, while
            // in the other order its token would look like an orphan.
            let page = self
                .store
                .counters_after(&after, PAGE, Read::Committed, deadline())
                .await?;
            let standings = self.standings(&page).await?;
            let Some(last) = page.last() else {
                return Ok(report);
            };
            after = match last {
                Ok(counter) => counter.key.clone(),
                Err(raw) => raw.get_str("_id").unwrap_or(&after).to_owned(),
            };
            report.counters += page.len();
            for counter in &page {
                match counter {
                    Ok(counter) => self.correct(counter, &standings, &mut report).await?,
                    Err(raw) => report.drift.push(Drift {
                        counter: raw.get("_id").map(ToString::to_string).unwrap_or_default(),
                        problem: "the document is not a counter; look at it by hand".to_owned(),
                    }),
                }
            }
            if (page.len() as i64) < PAGE {
                return Ok(report);
            }
        }
    }

    async fn standings(
        &self,
        page: &[Result<CounterDoc, mongodb::bson::Document>],
    ) -> Result<HashMap<String, Standing>, StoreError> {
        let tokens: Vec<String> = page
            .iter()
            .flatten()
            .flat_map(|counter| counter.tokens.clone())
            .collect();
        if tokens.is_empty() {
            return Ok(HashMap::new());
        }
        self.store.standings(&tokens, deadline()).await
    }

    async fn correct(
        &self,
        counter: &CounterDoc,
        standings: &HashMap<String, Standing>,
        report: &mut ReconcileReport,
    ) -> Result<(), StoreError> {
        let orphan = |token: &&String| is_orphan(standings.get(*token).copied());
        let orphans: Vec<&str> = counter
            .tokens
            .iter()
            .filter(orphan)
            .map(String::as_str)
            .collect();
        if counter.count != counter.tokens.len() as i64 {
            report.drift.push(Drift {
                counter: counter.key.clone(),
                problem: format!(
                    "count is {} but {} tokens are listed",
                    counter.count,
                    counter.tokens.len()
                ),
            });
        }
        if !orphans.is_empty() {
            let corrected = report.dry_run
                || self
                    .store
                    .unbook_orphans(&counter.key, &orphans, deadline())
                    .await?;
            if corrected {
                report.orphans.extend(orphans.iter().map(|token| Orphan {
                    counter: counter.key.clone(),
                    token: (*token).to_owned(),
                }));
            }
            if corrected && !report.dry_run {
                metrics::corrected(orphans.len());
                self.lines.call(std::slice::from_ref(&counter.key));
            }
        }
        if orphans.len() == counter.tokens.len() {
            let removed =
                report.dry_run || self.store.remove_if_empty(&counter.key, deadline()).await?;
            if removed {
                report.removed.push(counter.key.clone());
            }
        }
        Ok(())
    }
}

fn deadline() -> Instant {
    Instant::now() + OPERATION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_token_without_a_claim_is_an_orphan() {
        assert!(is_orphan(None));
        assert!(is_orphan(Some(Standing::Returned)));
        assert!(!is_orphan(Some(Standing::Books)));
    }
}
