//! `lease definition NAME`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use lease_shared::definition::{MergedDefinition, Source};
use lease_shared::{InvalidName, LeaseName, Level, Tenancy};

use crate::connection::Connection;
use crate::output;

/// Show a definition as an acquisition would see it now, with the layer that each field comes from.
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
}

impl Opts {
    /// The user owns no layer, so any will do.
    fn tenancy(&self) -> Result<Tenancy, InvalidName> {
        Tenancy::new(&self.tenant, &self.project, "nobody")
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
    if json {
        output::json(merged.as_ref())?;
        return Ok(ExitCode::SUCCESS);
    }
    output::table(["FIELD", "VALUE", "LAYER"], rows(&merged))?;
    for ignored in &merged.ignored {
        eprintln!(
            "ignored: {} in the {} layer: {}",
            ignored.field, ignored.layer, ignored.reason
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(merged: &MergedDefinition) -> Vec<[String; 3]> {
    let row = |field: &str, value: String, layer: &str| [field.to_owned(), value, layer.to_owned()];
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
        rows.push(match merged.levels.at(level) {
            Some(cap) => row(&field, cap.value.to_string(), cap.source.as_str()),
            None => row(&field, "no cap".to_owned(), ""),
        });
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
