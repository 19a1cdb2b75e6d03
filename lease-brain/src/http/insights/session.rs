//! How a browser keeps a token: in a cookie that no script can read, sent to this site alone and by its own pages alone.
//!
//! Nothing is kept here. Signing out has the browser forget the token; the token itself is good until it expires.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Form, FromRequest, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use cookie::{Cookie, SameSite};
use serde::Deserialize;

use super::admit::NotAdmitted;
use super::origin::{is_local, is_same_origin};
use super::{page_of, page_refusal, see_other};
use crate::brain::Site;

/// How long a browser may take over its form.
const BODY: Duration = Duration::from_secs(10);
/// What browsers keep; more they drop without a word.
const MOST: usize = 4096;

/// Signs in on the page of a tenant, and goes to that of the token's tenant.
pub(super) async fn login(
    State(site): State<Arc<Site>>,
    Path(tenant): Path<String>,
    request: Request,
) -> Response {
    let signed_in = sign_in(&site, request).await;
    signed_in.unwrap_or_else(|refused| page_refusal(&refused, Some(&tenant)))
}

/// Signs in where the tenant is not known yet.
pub(super) async fn login_anywhere(State(site): State<Arc<Site>>, request: Request) -> Response {
    let signed_in = sign_in(&site, request).await;
    signed_in.unwrap_or_else(|refused| page_refusal(&refused, None))
}

/// Has the browser forget the token.
pub(super) async fn logout(Path(tenant): Path<String>, headers: HeaderMap) -> Response {
    if !is_same_origin(&headers) {
        return page_refusal(&NotAdmitted::CrossSite, Some(&tenant));
    }
    let forget = kept(&headers, "", 0).map(|cookie| to(&tenant, cookie));
    forget.unwrap_or_else(|| see_other(&page_of(&tenant)))
}

#[derive(Deserialize)]
struct LoginForm {
    token: String,
}

async fn sign_in(site: &Site, request: Request) -> Result<Response, NotAdmitted> {
    let access = site.access.as_ref().ok_or(NotAdmitted::NoAccess)?;
    // Else another site could sign someone in as somebody of its choice.
    if !is_same_origin(request.headers()) {
        return Err(NotAdmitted::CrossSite);
    }
    let headers = request.headers().clone();
    let reading = Form::<LoginForm>::from_request(request, &());
    let read = tokio::time::timeout(BODY, reading).await;
    // The reason may quote the form.
    let Ok(Ok(Form(LoginForm { token }))) = read else {
        let problem = "the form has no token, is too long, or did not come in time";
        return Err(NotAdmitted::Invalid(problem.to_owned()));
    };
    let token = token.trim();
    if token.is_empty() {
        return Err(NotAdmitted::NotSignedIn);
    }
    let caller = access.caller(token).await?;
    let cookie = kept(&headers, token, caller.time_left().as_secs()).ok_or_else(|| {
        let problem = "the token is too long for a cookie: ask for one that says less, or use it with the API";
        NotAdmitted::Invalid(problem.to_owned())
    })?;
    Ok(to(&caller.tenant, cookie))
}

/// A browser takes a cookie of this name from nobody but this very site, and over TLS alone.
const SECURE: &str = "__Host-lease";
/// Of this name without TLS, which is on this machine alone.
const LOCAL: &str = "lease_insights";

/// The token in the cookie of a request. One that came without TLS counts on this machine alone.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let named = |name: &str| {
        let sent = headers.get_all(header::COOKIE).iter();
        let sent = sent.filter_map(|cookies| cookies.to_str().ok());
        sent.flat_map(Cookie::split_parse)
            .filter_map(Result::ok)
            .find(|cookie| cookie.name() == name)
            .and_then(|cookie| cookie.value_raw())
            .filter(|token| !token.is_empty())
    };
    let local = || is_local(headers).then(|| named(LOCAL)).flatten();
    named(SECURE).or_else(local)
}

/// The header that has a browser keep the token for this long, in seconds; nothing, if it would not.
fn kept(headers: &HeaderMap, token: &str, seconds: u64) -> Option<HeaderValue> {
    let local = is_local(headers);
    let name = if local { LOCAL } else { SECURE };
    let cookie = Cookie::build((name, token))
        .http_only(true)
        .same_site(SameSite::Strict)
        .secure(!local)
        .path("/")
        .max_age(cookie::time::Duration::seconds(
            i64::try_from(seconds).unwrap_or(i64::MAX),
        ))
        .build()
        .to_string();
    if cookie.len() > MOST {
        return None;
    }
    let mut value = HeaderValue::try_from(cookie).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn to(tenant: &str, cookie: HeaderValue) -> Response {
    let mut response = see_other(&page_of(tenant));
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response
}
