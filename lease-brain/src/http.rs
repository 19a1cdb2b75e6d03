//! Every route of the brain.

mod admin;
mod assets;
mod auth;
mod health;
mod insights;
mod internal;
mod mcp;
mod problem;
mod server;
mod tex;

use std::sync::Arc;

use addon_tex::Limits;
use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequestParts};
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use lease_shared::LeaseService;
use metrics_exporter_prometheus::PrometheusHandle;
use mongodb::Database;
use tokio_util::sync::CancellationToken;

use crate::brain::Site;
use crate::cluster::PodRegistry;
use crate::dispatch::Runner;
use crate::jobs::Jobs;
use crate::mcp::Pool;
use crate::sweeper::Sweeper;
use crate::tex::Tex;
pub(crate) use auth::InternalSecret;
pub(crate) use insights::Places;
use problem::Refusal;
pub(crate) use server::serve;

/// No call about leases needs more.
const BODY: usize = 64 * 1024;
/// The arguments of a tool may be a whole document.
const ARGUMENTS: usize = 4 * 1024 * 1024;

/// What the routes work on.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) leases: LeaseService,
    pub(crate) database: Database,
    pub(crate) registry: Arc<PodRegistry>,
    pub(crate) runner: Runner,
    pub(crate) sweeper: Sweeper,
    pub(crate) jobs: Jobs,
    pub(crate) mcp: Option<Pool>,
    pub(crate) tex: Option<Tex>,
    pub(crate) metrics: Option<PrometheusHandle>,
    pub(crate) stopping: CancellationToken,
}

impl FromRequestParts<Arc<Site>> for Served {
    type Rejection = Refusal;

    /// Before the store has been read, nothing is known, and that is the answer to every question about it.
    async fn from_request_parts(_: &mut Parts, site: &Arc<Site>) -> Result<Self, Refusal> {
        site.served.get().cloned().ok_or_else(Refusal::unknown)
    }
}

/// What a document's zip file may have.
fn zip_bytes() -> usize {
    usize::try_from(Limits::default().zip_bytes).unwrap_or(usize::MAX)
}

pub(crate) fn router(site: Arc<Site>, secret: InternalSecret) -> Router {
    let mcp = Router::new()
        .route("/mcp/{tool}/tools", post(mcp::tools))
        .route("/mcp/{tool}/call", post(mcp::call))
        .route("/mcp/{tool}/close", post(mcp::close))
        .layer(DefaultBodyLimit::max(ARGUMENTS));
    let tex = Router::new()
        .route("/tex/compile", post(tex::compile))
        .layer(DefaultBodyLimit::max(zip_bytes()));
    let internal = Router::new()
        .route("/lease/revoked", post(internal::revoked))
        .route("/lease/admin/revoke", post(admin::revoke))
        .route("/lease/admin/revoke-pod", post(admin::revoke_pod))
        .route("/lease/admin/sweep", post(admin::sweep))
        .route("/lease/admin/jobs/{job}", get(admin::job))
        .layer(DefaultBodyLimit::max(BODY))
        .merge(mcp)
        .merge(tex)
        // Before a body is read.
        .layer(from_fn_with_state(secret, auth::internal));
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route("/assets/{name}", get(assets::asset))
        .nest("/internal", internal)
        .merge(insights::router())
        .with_state(site)
}
