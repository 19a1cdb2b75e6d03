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
/// give their slots back when they have been cleaned up, and how many of these clean-ups have failed: `lease cleanup list`.
/// UNBOOKED are leases of that scope from before the level had a cap; they are not counted. A count field that differs from
/// the tokens of its counter was written by hand; the tokens alone count.
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
    let off = listed.entries.iter().any(is_off);
    let header = [
        "RESOURCE", "LEVEL", "SCOPE", "IN USE", "CAP", "HOLDERS", "CLEANUP", "DRIFT", "UNBOOKED",
    ];
    output::table(header, listed.entries.into_iter().map(row))?;
    if drift {
        eprintln!(
            "counters with drift: look again, and if it stays, `lease reconcile` frees what nobody holds"
        );
    }
    if off {
        eprintln!(
            "count fields that differ from their tokens decide nothing: `lease reconcile` names them, and the next lease that is \
             taken or given back there corrects them"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Was its count field written by something else than a booking?
fn is_off(counter: &CounterView) -> bool {
    counter.count_field != counter.count
}

fn row(counter: CounterView) -> [String; 9] {
    let scope = match (&counter.tenant, &counter.project, &counter.user) {
        (Some(tenant), Some(name), _) | (Some(tenant), _, Some(name)) => format!("{tenant}/{name}"),
        (Some(tenant), None, None) => tenant.clone(),
        (None, ..) => "everybody".to_owned(),
    };
    let off = is_off(&counter).then(|| {
        format!(
            "count field says {}, tokens {}",
            counter.count_field, counter.count
        )
    });
    let drift = (counter.drift != 0).then(|| format!("{:+}", counter.drift));
    let drift: Vec<_> = drift.into_iter().chain(off).collect();
    let cleanup = match (counter.awaiting_cleanup, counter.failed) {
        (0, _) => String::new(),
        (waiting, 0) => waiting.to_string(),
        (waiting, failed) => format!("{waiting} ({failed} failed)"),
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
        cleanup,
        drift.join(", "),
        unless_none(counter.unbooked),
    ]
}
