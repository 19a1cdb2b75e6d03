//! `GET /api/insights/{tenant}/me`: a token, tried.

use axum::Json;
use serde::Serialize;

use super::admit::{Admin, ApiAdmin};
use super::api::Refused;

/// Who a token says its bearer is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Me {
    subject: String,
    tenant: String,
    roles: Vec<String>,
    /// In UTC, as in `2026-12-01T08:00:00Z`.
    expires_at: String,
}

/// Who the token says you are.
#[utoipa::path(
    get,
    path = "/api/insights/{tenant}/me",
    params(("tenant" = String, Path, description = "Whose leases the token is about")),
    responses((status = 200, body = Me), Refused)
)]
pub(crate) async fn me(ApiAdmin(admin): ApiAdmin) -> Json<Me> {
    let Admin {
        tenant,
        subject,
        roles,
        expires_at,
    } = admin;
    Json(Me {
        subject,
        tenant,
        roles,
        expires_at: expires_at.to_string(),
    })
}
