//! Which MongoDB, which documents, and who asks.

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use lease_brain::args::{InvalidMongo, MongoArgs};
use lease_brain::cluster::{PodError, PodLiveness};
use lease_brain::handlers::webhook;
use lease_shared::definition::{ConfigDocuments, DefinitionResolver};
use lease_shared::{InvalidName, KnownTypes, LeaseService, StoreError, Tenancy, Unavailable};
use mongodb::Database;
use mongodb::error::ErrorKind;

use crate::exit::{UNAVAILABLE, USAGE, coded};

#[derive(Args, Clone)]
pub(crate) struct Connection {
    #[command(flatten)]
    mongo: MongoArgs,
}

impl Connection {
    pub(crate) async fn database(&self) -> anyhow::Result<Database> {
        let database = self.mongo.database().await;
        database.map_err(|error| match error {
            InvalidMongo::Unresolved(_) => {
                coded(UNAVAILABLE, format!("LEASE_UNAVAILABLE: {error}"))
            }
            InvalidMongo::Uri(_) | InvalidMongo::Database(_) => coded(USAGE, error.to_string()),
        })
    }

    pub(crate) fn documents(&self, database: &Database) -> ConfigDocuments {
        self.mongo.documents(database)
    }

    pub(crate) async fn definitions(&self) -> anyhow::Result<DefinitionResolver> {
        let database = self.database().await?;
        Ok(DefinitionResolver::new(self.documents(&database)))
    }

    /// A service that lives as long as one command: it reads a definition once, so it follows no changes.
    pub(crate) async fn leases(&self) -> anyhow::Result<LeaseService> {
        let database = self.database().await?;
        let documents = self.documents(&database);
        // What to call on a revocation is left to a brain.
        let types = KnownTypes::new().with(webhook::lease_type()?, webhook::SLOT_RETURN);
        let service = LeaseService::builder(database)
            .documents(documents)
            .listener(Arc::new(types))
            .follow_changes(false);
        Ok(service.start().await?)
    }

    /// A service for what needs a token and nothing else.
    pub(crate) async fn leases_by_token(&self) -> anyhow::Result<LeaseService> {
        let database = self.database().await?;
        let service = LeaseService::builder(database)
            .follow_changes(false)
            .create_indexes(false);
        Ok(service.start().await?)
    }

    /// Says what to do when no server answers. Names the hosts, and nothing else of the URI.
    pub(crate) async fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        if !error.chain().any(is_unreachable) {
            return error;
        }
        let advice = format!(
            "no MongoDB answers at {}: start one there, or name another with --mongodb-uri or MONGODB_URI (in this \
             project's source, `cargo xtask mongo start` starts one and `cargo xtask mongo uri` names it)",
            self.mongo.hosts().await.join(", ")
        );
        // The driver's own words are a page on its topology.
        let steps: Vec<String> = error
            .chain()
            .take_while(|cause| !cause.is::<Box<mongodb::error::Error>>())
            .map(ToString::to_string)
            .collect();
        coded(
            UNAVAILABLE,
            format!("LEASE_UNAVAILABLE: {advice}: {}", steps.join(": ")),
        )
    }
}

fn is_unreachable(cause: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = cause.downcast_ref::<StoreError>() {
        error.is_unreachable()
    } else if let Some(Unavailable::Store(error)) = cause.downcast_ref::<Unavailable>() {
        error.is_unreachable()
    } else if let Some(error) = cause.downcast_ref::<PodError>() {
        error.is_unreachable()
    } else if let Some(error) = cause.downcast_ref::<Box<mongodb::error::Error>>() {
        matches!(*error.kind, ErrorKind::ServerSelection { .. })
    } else {
        false
    }
}

/// Whose slots are taken.
#[derive(Args)]
#[command(next_help_heading = "Holder")]
pub(crate) struct Holder {
    /// The tenant.
    #[arg(long, env = "LEASE_TENANT")]
    tenant: String,
    /// The project, within the tenant.
    #[arg(long, env = "LEASE_PROJECT")]
    project: String,
    /// The user, within the tenant.
    #[arg(long, env = "LEASE_USER")]
    user: String,
}

impl Holder {
    pub(crate) fn tenancy(&self) -> Result<Tenancy, InvalidName> {
        Tenancy::new(&self.tenant, &self.project, &self.user)
    }
}

/// Says what could not be done for lack of an answer.
pub(crate) fn asked<T>(answer: Result<T, StoreError>) -> anyhow::Result<T> {
    answer.context("the lease store cannot be asked")
}

/// Reads the pods, as somebody who is none of them.
pub(crate) async fn pods(database: &Database) -> anyhow::Result<PodLiveness> {
    let pods = PodLiveness::read(database, None).await;
    pods.context("the pods cannot be looked at")
}
