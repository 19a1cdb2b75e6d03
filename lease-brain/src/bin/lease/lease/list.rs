//! `lease list`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use lease_brain::with_pod::WithPod;
use lease_brain::words;
use lease_shared::{CleanupPhase, Filter, HolderState, InvalidName, LeaseViews, PodId};

use super::pods::with_pods;
use crate::connection::{Connection, asked};
use crate::output;

/// Show the leases, those that expire first at the top.
#[derive(Args)]
#[command(
    after_help = "Example:\n  lease list --tenant acme --state held\n  lease list --json | jq -r '.[].token'"
)]
pub(crate) struct Opts {
    #[command(flatten)]
    filter: HolderFilter,
    /// Only in this state.
    #[arg(long)]
    state: Option<State>,
}

/// What all views of leases filter by.
#[derive(Args)]
pub(crate) struct HolderFilter {
    #[command(flatten)]
    scope: ScopeFilter,
    /// Only of this pod.
    #[arg(long)]
    pod: Option<String>,
    /// Only of this lease type.
    #[arg(long = "type", value_name = "TYPE")]
    lease_type: Option<String>,
}

impl HolderFilter {
    pub(crate) fn filter(self) -> Result<Filter, InvalidName> {
        Ok(Filter {
            pod: self.pod.map(PodId::new).transpose()?,
            lease_type: self.lease_type,
            ..self.scope.filter()
        })
    }
}

/// What `list` and `counters` filter by alike.
#[derive(Args)]
pub(crate) struct ScopeFilter {
    /// Only of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only of this project.
    #[arg(long)]
    project: Option<String>,
    /// Only of this user.
    #[arg(long)]
    user: Option<String>,
    /// Only on this resource.
    #[arg(long)]
    resource: Option<String>,
}

impl ScopeFilter {
    pub(crate) fn filter(self) -> Filter {
        Filter {
            tenant: self.tenant,
            project: self.project,
            user: self.user,
            resource: self.resource,
            ..Filter::default()
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum State {
    Pending,
    Held,
    Revoking,
}

impl From<State> for HolderState {
    fn from(state: State) -> Self {
        match state {
            State::Pending => Self::Pending,
            State::Held => Self::Held,
            State::Revoking => Self::Revoking,
        }
    }
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let filter = Filter {
        state: opts.state.map(HolderState::from),
        ..opts.filter.filter()?
    };
    let database = connection.database().await?;
    let views = LeaseViews::new(database.clone());
    let listed = asked(views.holders(&filter).await)?;
    output::unreadable(&listed.unreadable);
    let holders = with_pods(listed.entries, &database).await?;
    if json {
        output::json(&holders)?;
        return Ok(ExitCode::SUCCESS);
    }
    if holders.is_empty() {
        eprintln!("no leases match; `lease acquire` or `lease run` takes one");
        return Ok(ExitCode::SUCCESS);
    }
    let header = [
        "TOKEN",
        "RESOURCE",
        "STATE",
        "TENANT",
        "PROJECT",
        "USER",
        "HOLDER",
        "POD",
        "AGE",
        "EXPIRES IN",
    ];
    let hint = awaiting_cleanup(&holders);
    output::table(header, holders.into_iter().map(row))?;
    if let Some(hint) = hint {
        eprintln!("{hint}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What of these waits for something, in a line.
fn awaiting_cleanup(holders: &[WithPod]) -> Option<String> {
    let phases = holders.iter().filter_map(|it| it.holder.cleanup.as_ref());
    let (failed, waiting): (Vec<_>, Vec<_>) =
        phases.partition(|cleanup| cleanup.phase == CleanupPhase::Failed);
    let (waiting, failed) = match (waiting.len(), failed.len()) {
        (0, 0) => return None,
        (1, failed) => ("1 revocation waits for its clean-up".to_owned(), failed),
        (count, failed) => (
            format!("{count} revocations wait for their clean-up"),
            failed,
        ),
    };
    Some(format!("{waiting}, {failed} failed: `lease cleanup list`"))
}

fn row(listed: WithPod) -> [String; 10] {
    let pod = listed.pod_in_short();
    let holder = listed.holder;
    let expires = match holder.expires_in_seconds {
        0 => "expired".to_owned(),
        seconds => words::seconds(seconds),
    };
    [
        holder.token.to_string(),
        holder.resource.clone(),
        words::state(&holder),
        holder.tenant,
        holder.project,
        holder.user,
        holder.holder_ref,
        pod,
        words::seconds(holder.age_seconds),
        expires,
    ]
}
