//! `lease counters`.

use std::process::ExitCode;

use clap::Args;
use lease_shared::{CounterView, LeaseViews};

use super::list::ScopeFilter;
use crate::connection::{Connection, asked};
use crate::output;

/// Show the counters of all levels: how many slots are in use, and by how many holders.
///
/// IN USE is what the counter lists, HOLDERS how many leases say that they book it. A difference is drift: an acquire or
/// a release under way, or what a crash left, which `lease reconcile` frees. CLEANUP is how many of HOLDERS are revoked, and
/// give their slots back when they have been cleaned up: `lease cleanup list`. UNBOOKED are leases of that scope from before
/// the level had a cap; they are not counted.
#[derive(Args)]
#[command(after_help = "Example:\n  lease counters --resource tex2pdf")]
pub(crate) struct Opts {
    #[command(flatten)]
    scope: ScopeFilter,
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let views = LeaseViews::new(connection.database().await?);
    let listed = asked(views.counters(&opts.scope.filter()).await)?;
    output::unreadable(&listed.unreadable);
    if json {
        output::json(&listed.entries)?;
        return Ok(ExitCode::SUCCESS);
    }
    if listed.entries.is_empty() {
        eprintln!("no counters match: nothing is held there");
        return Ok(ExitCode::SUCCESS);
    }
    let drift = listed.entries.iter().any(|counter| counter.drift != 0);
    let header = [
        "RESOURCE", "LEVEL", "SCOPE", "IN USE", "CAP", "HOLDERS", "CLEANUP", "DRIFT", "UNBOOKED",
    ];
    output::table(header, listed.entries.into_iter().map(row))?;
    if drift {
        eprintln!(
            "counters with drift: look again, and if it stays, `lease reconcile` frees what nobody holds"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn row(counter: CounterView) -> [String; 9] {
    let scope = match (&counter.tenant, &counter.project, &counter.user) {
        (Some(tenant), Some(name), _) | (Some(tenant), _, Some(name)) => format!("{tenant}/{name}"),
        (Some(tenant), None, None) => tenant.clone(),
        (None, ..) => "everybody".to_owned(),
    };
    let drift = match counter.drift {
        0 => String::new(),
        drift => format!("{drift:+}"),
    };
    let unless_none = |count: i64| match count {
        0 => String::new(),
        count => count.to_string(),
    };
    [
        counter.resource,
        counter.level.to_string(),
        scope,
        counter.count.to_string(),
        counter.cap.to_string(),
        counter.booked.to_string(),
        unless_none(counter.awaiting_cleanup),
        drift,
        unless_none(counter.unbooked),
    ]
}
