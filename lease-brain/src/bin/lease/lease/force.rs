//! A revocation without a brain: the slot is free at once, whatever still runs.

use lease_brain::with_pod::WithPod;
use lease_brain::words;
use lease_shared::{BrokenLease, Decision, LeaseService, LeaseToken, StoreError};
use serde::Serialize;

/// What came of forcing one lease.
pub(crate) enum Forced {
    Done(ForceReport),
    /// It was given back, or is another's, by now.
    Gone,
}

/// What was skipped.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForceReport {
    token: LeaseToken,
    outcome: &'static str,
    slot: &'static str,
    cleanup: &'static str,
    #[serde(rename = "type")]
    lease_type: String,
    skipped: String,
    may_still_run: String,
}

impl ForceReport {
    pub(crate) fn line(&self) -> String {
        let until_then = match self.lease_type.as_str() {
            "command" => "",
            _ => "until then: ",
        };
        format!(
            "{} forced: the slot is free; {}; {until_then}{}",
            self.token, self.skipped, self.may_still_run
        )
    }
}

/// What was skipped for a lease whose document cannot be read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BrokenReport<'a> {
    token: &'a LeaseToken,
    outcome: &'static str,
    slot: &'static str,
    cleanup: &'static str,
    #[serde(rename = "type")]
    lease_type: Option<&'a str>,
    unreadable: &'a str,
    skipped: String,
}

impl<'a> BrokenReport<'a> {
    pub(crate) fn of(lease: &'a BrokenLease) -> Self {
        Self {
            token: &lease.token,
            outcome: "forced",
            slot: match lease.levels.is_empty() {
                true => "reconcile",
                false => "free",
            },
            cleanup: "pending",
            lease_type: lease.lease_type.as_deref(),
            unreadable: &lease.unreadable,
            skipped: format!(
                "no handler runs, for its document cannot be read: `lease cleanup abandon {}` ends it",
                lease.token
            ),
        }
    }

    pub(crate) fn line(&self) -> String {
        let slot = match self.slot {
            "free" => "the slot is free",
            _ => "`lease reconcile` frees its slot",
        };
        format!("{} forced: {slot}; {}", self.token, self.skipped)
    }
}

pub(crate) async fn force(
    leases: &LeaseService,
    lease: &WithPod,
    decision: &Decision,
) -> Result<Forced, StoreError> {
    let token = &lease.holder.token;
    let forced = leases.force_revoke(token, decision).await?;
    Ok(match forced {
        None => Forced::Gone,
        Some(_) => Forced::Done(ForceReport {
            token: token.clone(),
            outcome: "forced",
            slot: "free",
            cleanup: "pending",
            lease_type: lease.holder.lease_type.clone(),
            skipped: words::skipped(&lease.holder),
            may_still_run: words::may_still_run(lease),
        }),
    })
}
