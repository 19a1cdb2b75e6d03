//! `/api/insights/{tenant}/…`: the tenant's leases, for programs.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::get;
use lease_shared::{HolderState, LeaseToken, TenantCounter};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::admit::ApiAdmin;
use super::me;
use crate::api::Problem;
use crate::brain::Site;
use crate::http::problem::{Body, Refusal};
use crate::http::{BODY, Served};
use crate::insights::answer::{HolderDetail, Listing, Overview};
use crate::insights::params::{CounterParams, HolderParams, RevocationParams};
use crate::insights::revoke::{AT_ONCE, RevokeOutcome, RevokeResult, Seen, checked_reason};
use crate::insights::turns::Turn;
use crate::insights::{Insights, InsightsError};
use crate::with_pod::WithPod;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Insights: a tenant's own view of its leases",
        description = "Reading and acting need a token with the role ADMIN of the tenant in the path."
    ),
    modifiers(&Tokens),
    security(("token" = []), ("page" = []))
)]
struct Document;

/// How a caller says who it is.
struct Tokens;

impl Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let mut bearer = Http::new(HttpAuthScheme::Bearer);
        bearer.bearer_format = Some("JWT".to_owned());
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
        let cookie = ApiKeyValue::with_description(
            "lease_insights",
            "Set by signing in on the page; `__Host-lease` over HTTPS. What changes anything must then come from the same origin.",
        );
        components.add_security_scheme("page", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    }
}

pub(super) fn router() -> axum::Router<Arc<Site>> {
    let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(me::me))
        .routes(routes!(overview))
        .routes(routes!(holders))
        .routes(routes!(holder))
        .routes(routes!(revoke))
        .routes(routes!(revoke_all))
        .routes(routes!(counters))
        .routes(routes!(revocations))
        .routes(routes!(retry))
        .split_for_parts();
    let document = Arc::new(document);
    let serve = get(move || {
        let document = Arc::clone(&document);
        async move { Json(document.as_ref().clone()) }
    });
    router
        .route("/api/insights/openapi.json", serve)
        .layer(DefaultBodyLimit::max(BODY))
}

/// Why a call is not done.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only describes what a Refusal is answered with")]
pub(super) enum Refused {
    /// Something in the path, the query or the body cannot be taken as it is.
    #[response(status = 400)]
    BadRequest(Problem),
    /// The body did not come in time, is too long, or is not called JSON.
    #[response(status = "4XX")]
    Body(Problem),
    /// No token, or one that is not valid (any more).
    #[response(status = 401)]
    NotSignedIn(Problem),
    /// The token is for another tenant or without the role ADMIN, or the call came from another site's page.
    #[response(status = 403)]
    Forbidden(Problem),
    /// The store or the keys of tokens cannot be had: nothing is known. Ask again.
    #[response(status = 503)]
    Unavailable(Problem),
}

/// What stands out: how many leases there are, what is nearly full, what has been held the longest, what is being revoked.
#[utoipa::path(
    get,
    path = "/api/insights/{tenant}/overview",
    params(("tenant" = String, Path)),
    responses((status = 200, body = Overview), Refused)
)]
async fn overview(of: Of) -> Result<Json<Overview>, Refusal> {
    Ok(Json(of.insights.overview().await?))
}

/// A page of the tenant's leases, in any state.
#[utoipa::path(
    get,
    path = "/api/insights/{tenant}/holders",
    params(("tenant" = String, Path), HolderParams),
    responses((status = 200, body = Listing<WithPod>), Refused)
)]
async fn holders(
    of: Of,
    Asked(params): Asked<HolderParams>,
) -> Result<Json<Listing<WithPod>>, Refusal> {
    Ok(Json(of.insights.holders(&params).await?))
}

/// Everything about one lease.
#[utoipa::path(
    get,
    path = "/api/insights/{tenant}/holders/{token}",
    params(("tenant" = String, Path), ("token" = String, Path, description = "The lease")),
    responses(
        (status = 200, body = HolderDetail),
        (status = 404, body = Problem, description = "No such lease in this tenant"),
        Refused
    )
)]
async fn holder(of: Of, Token(token): Token) -> Result<Json<HolderDetail>, Refusal> {
    Ok(Json(of.insights.holder(&token).await?))
}

/// What was seen of a lease, and why it is to end.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RevokeOne {
    /// The state it was seen in. Only what is HELD can be revoked.
    state: HolderState,
    /// Why, at most 500 characters, for its user to read. May be left out for a lease of the caller's own.
    #[serde(default)]
    reason: Option<String>,
}

/// Takes a lease from its holder, if it is still what was seen. Its clean-up follows.
#[utoipa::path(
    post,
    path = "/api/insights/{tenant}/holders/{token}/revoke",
    params(("tenant" = String, Path), ("token" = String, Path, description = "The lease")),
    request_body = RevokeOne,
    responses(
        (status = 200, body = RevokeResult),
        (status = 404, body = Problem, description = "No such lease in this tenant, or not any more"),
        (status = 409, body = Problem, description = "Holder changed: it is not what was seen"),
        (status = 422, body = Problem, description = "It is another user's, so a reason is needed (REASON_NEEDED); or the body is not what is described here"),
        Refused
    )
)]
async fn revoke(
    of: Of,
    Token(token): Token,
    Body(call): Body<RevokeOne>,
) -> Result<Json<RevokeResult>, Refusal> {
    let reason = reason(call.reason.as_deref())?;
    let seen = Seen {
        token,
        state: call.state,
    };
    let result = of
        .insights
        .revoke(&seen, reason.as_deref(), &of.caller)
        .await;
    let (status, code) = match result.outcome {
        RevokeOutcome::Revoked => return Ok(Json(result)),
        RevokeOutcome::HolderChanged => (StatusCode::CONFLICT, Problem::HOLDER_CHANGED),
        RevokeOutcome::NoSuchLease => (StatusCode::NOT_FOUND, Problem::UNKNOWN_TOKEN),
        RevokeOutcome::ReasonNeeded => (StatusCode::UNPROCESSABLE_ENTITY, Problem::REASON_NEEDED),
        RevokeOutcome::Unreadable => (StatusCode::UNPROCESSABLE_ENTITY, Problem::INVALID),
        RevokeOutcome::Unknown => (StatusCode::SERVICE_UNAVAILABLE, Problem::UNAVAILABLE),
    };
    Err(Refusal::new(status, code, result.words))
}

/// What was seen of several leases, and why they are to end.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RevokeMany {
    /// The leases, at most 100.
    #[schema(min_items = 1, max_items = 100)]
    holders: Vec<Seen>,
    /// Why, at most 500 characters, for their users to read.
    reason: String,
}

/// What became of each of several leases.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RevokedMany {
    /// In the order in which they were named.
    results: Vec<RevokeResult>,
}

/// Takes several leases from their holders, each by itself: what becomes of one says nothing of another.
#[utoipa::path(
    post,
    path = "/api/insights/{tenant}/holders/revoke",
    params(("tenant" = String, Path)),
    request_body = RevokeMany,
    responses((status = 200, body = RevokedMany), Refused)
)]
async fn revoke_all(of: Of, Body(call): Body<RevokeMany>) -> Result<Json<RevokedMany>, Refusal> {
    if !(1..=AT_ONCE).contains(&call.holders.len()) {
        return Err(bad(format!("holders must name 1 to {AT_ONCE} leases")));
    }
    let reason = reason(Some(&call.reason))?;
    let reason = reason.ok_or_else(|| bad("reason must be given: others read it".to_owned()))?;
    let results = of
        .insights
        .revoke_all(&call.holders, &reason, &of.caller)
        .await;
    Ok(Json(RevokedMany { results }))
}

/// A page of the tenant's counters, those with the least room first. The global level belongs to no tenant, and is not
/// among them.
#[utoipa::path(
    get,
    path = "/api/insights/{tenant}/counters",
    params(("tenant" = String, Path), CounterParams),
    responses((status = 200, body = Listing<TenantCounter>), Refused)
)]
async fn counters(
    of: Of,
    Asked(params): Asked<CounterParams>,
) -> Result<Json<Listing<TenantCounter>>, Refusal> {
    Ok(Json(of.insights.counters(&params).await?))
}

/// A page of the leases that are being revoked, those whose clean-up failed first, then those that are tried next.
#[utoipa::path(
    get,
    path = "/api/insights/{tenant}/revocations",
    params(("tenant" = String, Path), RevocationParams),
    responses((status = 200, body = Listing<WithPod>), Refused)
)]
async fn revocations(
    of: Of,
    Asked(params): Asked<RevocationParams>,
) -> Result<Json<Listing<WithPod>>, Refusal> {
    Ok(Json(of.insights.revocations(&params).await?))
}

/// Tries a clean-up again now, as if for the first time.
#[utoipa::path(
    post,
    path = "/api/insights/{tenant}/revocations/{token}/retry",
    params(("tenant" = String, Path), ("token" = String, Path, description = "The lease")),
    responses(
        (status = 204, description = "It is tried at once"),
        (status = 404, body = Problem, description = "No such lease in this tenant, or its clean-up is done"),
        (status = 409, body = Problem, description = "It is not being revoked, or a pod works on it just now"),
        Refused
    )
)]
async fn retry(of: Of, Token(token): Token) -> Result<StatusCode, Refusal> {
    match of.insights.retry(&token, &of.caller).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Refusal::new(
            StatusCode::CONFLICT,
            Problem::NOT_RETRIED,
            "nothing was done: it is not being revoked, or its clean-up runs just now",
        )),
    }
}

/// The tenant's leases, and who asks.
struct Of {
    insights: Insights,
    caller: String,
    _turn: Turn,
}

impl FromRequestParts<Arc<Site>> for Of {
    type Rejection = Refusal;

    /// Who is not admitted is not told whether the store is there.
    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Refusal> {
        let ApiAdmin(admin) = ApiAdmin::from_request_parts(parts, site).await?;
        let served = Served::from_request_parts(parts, site).await?;
        let turn = site.turns.of_request().await.ok_or_else(|| {
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                Problem::TOO_MANY,
                "this brain is asked too much at once: nothing was done, ask again soon",
            )
        })?;
        Ok(Self {
            insights: served.insights(&admin.tenant)?,
            caller: admin.subject,
            _turn: turn,
        })
    }
}

impl Served {
    pub(super) fn insights(&self, tenant: &str) -> Result<Insights, lease_shared::InvalidName> {
        Insights::new(
            tenant,
            self.leases.clone(),
            self.database.clone(),
            self.registry.pod().clone(),
            self.sweeper.clone(),
        )
    }
}

/// The query of the URL.
struct Asked<T>(T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Site>> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Refusal> {
        let asked: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, site).await;
        let Query(params) = asked.map_err(|rejection| bad(rejection.body_text()))?;
        Ok(Self(params))
    }
}

/// The lease in the path.
struct Token(LeaseToken);

#[derive(Deserialize)]
struct Which {
    token: String,
}

impl FromRequestParts<Arc<Site>> for Token {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Refusal> {
        let which: Result<Path<Which>, PathRejection> = Path::from_request_parts(parts, site).await;
        let Path(which) = which.map_err(|rejection| bad(rejection.body_text()))?;
        Ok(Self(LeaseToken::new(which.token)?))
    }
}

fn reason(given: Option<&str>) -> Result<Option<String>, Refusal> {
    checked_reason(given).map_err(|rule| bad(format!("reason {rule}")))
}

fn bad(message: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, Problem::BAD_REQUEST, message)
}

impl From<InsightsError> for Refusal {
    fn from(error: InsightsError) -> Self {
        match error {
            InsightsError::Param(error) => bad(error.to_string()),
            InsightsError::Name(error) => error.into(),
            InsightsError::Store(error) => error.into(),
            InsightsError::Pods(error) => Self::unavailable(&error),
            InsightsError::Unreadable(_) => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                Problem::INVALID,
                error.to_string(),
            ),
            InsightsError::NoSuchLease(_) => {
                Self::not_found(Problem::UNKNOWN_TOKEN, error.to_string())
            }
        }
    }
}
