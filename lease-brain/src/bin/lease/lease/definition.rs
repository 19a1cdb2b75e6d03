//! `lease definition NAME`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use lease_shared::definition::{MergedDefinition, Source};
use lease_shared::{InvalidName, LeaseName, LeaseViews, Level, LevelUse, Tenancy};
use serde_json::{Value, json};

use crate::connection::{Connection, asked};
use crate::output;

/// Show a definition as an acquisition would see it now, with the layer that each field comes from.
///
/// HELD is how many leases there are in the scope of a capped level, and UNBOOKED how many of these were acquired before it
/// had that cap: they are not counted against it.
#[derive(Args)]
#[command(after_help = "Example:\n  lease definition tex --tenant acme --project thesis")]
pub(crate) struct Opts {
    /// The lease's name.
    #[arg(value_name = "NAME")]
    name: String,
    /// The tenant whose layer counts.
    #[arg(long, env = "LEASE_TENANT")]
    tenant: String,
    /// The project whose layer counts.
    #[arg(long, env = "LEASE_PROJECT")]
    project: String,
    /// Whose leases are counted at the user level.
    #[arg(long, env = "LEASE_USER")]
    user: Option<String>,
}

impl Opts {
    /// The user owns no layer, so any will do for the definition.
    fn tenancy(&self) -> Result<Tenancy, InvalidName> {
        let user = self.user.as_deref().unwrap_or("nobody");
        Tenancy::new(&self.tenant, &self.project, user)
    }
}

pub(crate) async fn run(
    opts: Opts,
    connection: Connection,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let (name, tenancy) = (LeaseName::new(opts.name.as_str())?, opts.tenancy()?);
    let merged = connection
        .definitions()
        .await?
        .explain(&tenancy, &name)
        .await;
    let merged = merged.with_context(|| {
        format!(
            "lease {name} for {}/{}",
            tenancy.tenant(),
            tenancy.project()
        )
    })?;
    let mut uses = uses(&merged, &tenancy, &connection).await;
    if opts.user.is_none() {
        uses.retain(|used| used.level != Level::User);
    }
    if json {
        output::json(&with_uses(&merged, &uses)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let header = ["FIELD", "VALUE", "LAYER", "HELD", "UNBOOKED"];
    output::table(header, rows(&merged, &uses))?;
    if uses.iter().any(|used| used.unbooked > 0) {
        eprintln!(
            "unbooked leases are from before their level had its cap, and not counted against it: until they end, more are held \
             than it allows"
        );
    }
    for ignored in &merged.ignored {
        eprintln!(
            "ignored: {} in the {} layer: {}",
            ignored.field, ignored.layer, ignored.reason
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// How far the capped levels are used. The definition is shown even if that cannot be had: it may live elsewhere.
async fn uses(
    merged: &MergedDefinition,
    tenancy: &Tenancy,
    connection: &Connection,
) -> Vec<LevelUse> {
    let read = async {
        let views = LeaseViews::new(connection.database().await?);
        asked(views.level_uses(&merged.definition(), tenancy).await)
    };
    match read.await {
        Ok(listed) => {
            output::unreadable(&listed.unreadable);
            listed.entries
        }
        Err(error) => {
            let problem = output::printable(&error.to_string());
            eprintln!("lease: warning: how many leases are held is not shown: {problem}");
            Vec::new()
        }
    }
}

/// The definition, with these two more at each level that has a cap; null where it is not known.
fn with_uses(merged: &MergedDefinition, uses: &[LevelUse]) -> anyhow::Result<Value> {
    let mut whole = serde_json::to_value(merged)?;
    for level in Level::NARROW_TO_WIDE {
        if let Some(cap) = whole["levels"][level.as_str()].as_object_mut() {
            let used = uses.iter().find(|used| used.level == level);
            cap.insert("held".to_owned(), json!(used.map(|used| used.held)));
            cap.insert("unbooked".to_owned(), json!(used.map(|used| used.unbooked)));
        }
    }
    Ok(whole)
}

fn rows(merged: &MergedDefinition, uses: &[LevelUse]) -> Vec<[String; 5]> {
    let row = |field: &str, value: String, layer: &str| {
        let none = String::new;
        [field.to_owned(), value, layer.to_owned(), none(), none()]
    };
    let mut rows = vec![
        row("name", merged.name.to_string(), ""),
        row(
            "resource",
            merged.resource.value.to_string(),
            merged.resource.source.as_str(),
        ),
    ];
    let global = merged.global_resource.as_ref();
    if let Some(global) = global.filter(|global| global.value != merged.resource.value) {
        rows.push(row(
            "resource (global level)",
            global.value.to_string(),
            global.source.as_str(),
        ));
    }
    for level in Level::NARROW_TO_WIDE.into_iter().rev() {
        let field = format!("levels.{level}");
        let mut row = match merged.levels.at(level) {
            Some(cap) => row(&field, cap.value.to_string(), cap.source.as_str()),
            None => row(&field, "no cap".to_owned(), ""),
        };
        if let Some(used) = uses.iter().find(|used| used.level == level) {
            row[3] = used.held.to_string();
            row[4] = used.unbooked.to_string();
        }
        rows.push(row);
    }
    let (ttl, wait): (_, &Source) = (&merged.ttl, &merged.wait.source);
    rows.push(row(
        "ttlSeconds",
        ttl.value.get().to_string(),
        ttl.source.as_str(),
    ));
    rows.push(row(
        "waitMs",
        merged.wait.value.get().to_string(),
        wait.as_str(),
    ));
    rows
}
