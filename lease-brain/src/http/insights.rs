//! What a tenant's administrators see of its leases, in a browser and by programs.

mod admit;
mod api;
mod me;
mod origin;
mod page;
mod session;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::brain::Site;
pub(crate) use admit::NotAdmitted;
pub(crate) use page::Places;

/// A token has at most 8 KiB, and a form may encode it.
const FORM: usize = 16 * 1024;
/// What stands for itself in a path, wherever it stands.
const SEGMENT: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');
/// What a browser is told about whatever it gets from here. With `no-referrer` it would not say where a form comes from.
const SECURITY: [(HeaderName, HeaderValue); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("same-origin"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

pub(crate) fn router() -> Router<Arc<Site>> {
    let page = Router::new()
        .route("/insights", post(session::login_anywhere))
        .route("/insights/{tenant}/login", post(session::login))
        .route("/insights/{tenant}/logout", post(session::logout))
        .layer(DefaultBodyLimit::max(FORM));
    page.merge(page::router())
        .merge(api::router())
        .layer(map_response(secured))
}

/// The address of a tenant's page, whatever the tenant is called.
pub(crate) fn page_of(tenant: &str) -> String {
    format!("/insights/{}", utf8_percent_encode(tenant, &SEGMENT))
}

/// What a browser shows of a refusal. `tenant` is whose page was asked for, if one was.
pub(crate) fn page_refusal(refused: &NotAdmitted, tenant: Option<&str>) -> Response {
    page::refused(refused, tenant)
}

/// What a handler says itself stands.
async fn secured(mut response: Response) -> Response {
    for (name, value) in SECURITY {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

/// To a place that is shown by GET, whatever the request was.
fn see_other(place: &str) -> Response {
    // Encoded as it is, it can always be a header.
    let place = HeaderValue::from_str(place).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response()
}

#[test]
fn page_of_any_tenant_is_one_path_below_insights() {
    for (tenant, page) in [
        ("acme", "/insights/acme"),
        ("a/b", "/insights/a%2Fb"),
        ("100%", "/insights/100%25"),
        ("a b", "/insights/a%20b"),
        ("<script>", "/insights/%3Cscript%3E"),
        ("é?#", "/insights/%C3%A9%3F%23"),
        ("login", "/insights/login"),
    ] {
        assert_eq!(page_of(tenant), page);
    }
}
