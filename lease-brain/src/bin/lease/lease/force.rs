//! A revocation without a brain: the slot is free at once, whatever still runs.

use lease_brain::with_pod::WithPod;
use lease_brain::words;
use lease_shared::{Decision, LeaseService, LeaseToken, StoreError};
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
