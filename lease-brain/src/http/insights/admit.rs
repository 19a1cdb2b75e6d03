//! Who calls, and may they?

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use jiff::Timestamp;
use serde::Deserialize;

use super::origin::is_same_origin;
use super::session;
use crate::access::{ADMIN, Denied};
use crate::api::Problem;
use crate::brain::Site;
use crate::http::problem::Refusal;

/// Who administers the tenant of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Admin {
    /// The tenant that was asked for, and that the token is about.
    pub(crate) tenant: String,
    /// Who it is.
    pub(crate) subject: String,
    /// What the token lets it do.
    pub(crate) roles: Vec<String>,
    /// When the token expires.
    pub(crate) expires_at: Timestamp,
}

/// Why somebody is shown nothing, by what can be done about it. Its words say nothing of the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAdmitted {
    /// Nobody can be, here.
    #[error(
        "this brain verifies no tokens, so it shows no tenant's leases: start it with --jwt-secret-file or --jwt-jwks"
    )]
    NoAccess,
    /// No token has come.
    #[error(
        "you are not signed in: send a token as `Authorization: Bearer …`, or sign in on the page"
    )]
    NotSignedIn,
    /// The token was good once.
    #[error("the token has expired: sign in again")]
    Expired,
    /// The token is no good.
    #[error("{0}")]
    Invalid(String),
    /// The token is good, and not for this.
    #[error("this needs a token with the role {needed} in the tenant {tenant:?}")]
    Forbidden {
        /// What it lacks, or has elsewhere.
        needed: &'static str,
        /// Where it is needed: what the path says, never what the token does.
        tenant: String,
    },
    /// A page of another site may have sent it.
    #[error(
        "the request comes from another site's page, or does not say from which, so it is not done"
    )]
    CrossSite,
    /// Whether the token is good is not known.
    #[error("the token cannot be verified now, because the keys cannot be had: try again soon")]
    Unavailable,
}

impl NotAdmitted {
    /// How it is answered.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::NoAccess => StatusCode::NOT_FOUND,
            Self::NotSignedIn | Self::Expired | Self::Invalid(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } | Self::CrossSite => StatusCode::FORBIDDEN,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The stable word for it.
    fn code(&self) -> &'static str {
        match self {
            Self::NoAccess => Problem::NO_INSIGHTS,
            Self::NotSignedIn => Problem::NOT_SIGNED_IN,
            Self::Expired => Problem::TOKEN_EXPIRED,
            Self::Invalid(_) => Problem::TOKEN_INVALID,
            Self::Forbidden { .. } => Problem::FORBIDDEN,
            Self::CrossSite => Problem::CROSS_SITE,
            Self::Unavailable => Problem::KEYS_UNAVAILABLE,
        }
    }
}

impl From<Denied> for NotAdmitted {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Expired => Self::Expired,
            Denied::NotYetValid | Denied::Invalid(_) => Self::Invalid(denied.to_string()),
            Denied::Unavailable => Self::Unavailable,
        }
    }
}

impl From<NotAdmitted> for Refusal {
    fn from(refused: NotAdmitted) -> Self {
        Self::new(refused.status(), refused.code(), refused.to_string())
    }
}

/// Lets in who administers this tenant, by the token in the request's header, or else in the cookie of the page.
pub(crate) async fn admit(site: &Site, parts: &Parts, tenant: &str) -> Result<Admin, NotAdmitted> {
    let access = site.access.as_ref().ok_or(NotAdmitted::NoAccess)?;
    let token = token(&parts.method, &parts.headers)?;
    let caller = access.caller(token).await?;
    if !caller.administers(tenant) {
        return Err(NotAdmitted::Forbidden {
            needed: ADMIN,
            tenant: tenant.to_owned(),
        });
    }
    Ok(Admin {
        tenant: caller.tenant,
        subject: caller.subject,
        roles: caller.roles,
        expires_at: caller.expires_at,
    })
}

/// The token of a request, which a header gives on purpose and a cookie by itself: with that alone, a page of another site
/// must not be able to change anything.
fn token<'a>(method: &Method, headers: &'a HeaderMap) -> Result<&'a str, NotAdmitted> {
    if let Some(token) = bearer(headers)? {
        return Ok(token);
    }
    let token = session::cookie(headers).ok_or(NotAdmitted::NotSignedIn)?;
    let only_looks = matches!(*method, Method::GET | Method::HEAD);
    match only_looks || is_same_origin(headers) {
        true => Ok(token),
        false => Err(NotAdmitted::CrossSite),
    }
}

/// Nothing, where the header is not there, or is of another scheme, as of a proxy in between.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, NotAdmitted> {
    let odd = || NotAdmitted::Invalid("the header Authorization cannot be read".to_owned());
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    if given.next().is_some() {
        return Err(odd());
    }
    let value = value.to_str().map_err(|_| odd())?;
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    match scheme.eq_ignore_ascii_case("bearer") {
        true => Ok(Some(token.trim())),
        false => Ok(None),
    }
}

/// Who administers the tenant of the path; else a refusal in JSON.
#[derive(Debug)]
pub(crate) struct ApiAdmin(pub(crate) Admin);

/// A path may have more than the tenant.
#[derive(Deserialize)]
struct Whose {
    tenant: String,
}

impl FromRequestParts<Arc<Site>> for ApiAdmin {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Refusal> {
        let Path(Whose { tenant }) =
            Path::from_request_parts(parts, site)
                .await
                .map_err(|rejection| {
                    Refusal::new(
                        rejection.status(),
                        Problem::BAD_REQUEST,
                        "the tenant in the path is no text of UTF-8, percent-encoded",
                    )
                })?;
        Ok(Self(admit(site, parts, &tenant).await?))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    /// Whose token counts, or how it is refused.
    fn told(method: Method, given: &[(HeaderName, &str)]) -> Result<String, NotAdmitted> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "localhost:7311".parse().unwrap());
        for (name, value) in given {
            headers.append(name, value.parse().unwrap());
        }
        token(&method, &headers).map(str::to_owned)
    }

    const COOKIE: (HeaderName, &str) = (header::COOKIE, "a=b; lease_insights=kept; c=d");
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

    #[test]
    fn header_wins_over_the_cookie() {
        let authorization = |value| (header::AUTHORIZATION, value);
        let get = |given: &[_]| told(Method::GET, given);
        assert_eq!(
            get(&[authorization("Bearer given"), COOKIE]).unwrap(),
            "given"
        );
        assert_eq!(get(&[authorization("bearer  given")]).unwrap(), "given");
        assert_eq!(get(&[authorization("Bearer"), COOKIE]).unwrap(), "");
        assert_eq!(get(&[authorization("Basic YTpi"), COOKIE]).unwrap(), "kept");
        assert_eq!(get(&[COOKIE]).unwrap(), "kept");
        assert_eq!(get(&[]), Err(NotAdmitted::NotSignedIn));
        let empty = (header::COOKIE, "__Host-lease=; lease_insights=");
        assert_eq!(get(&[empty]), Err(NotAdmitted::NotSignedIn));
        let both = (header::COOKIE, "lease_insights=local; __Host-lease=kept");
        assert_eq!(get(&[both]).unwrap(), "kept");
        let twice = [authorization("Bearer a"), authorization("Bearer b"), COOKIE];
        assert!(matches!(get(&twice), Err(NotAdmitted::Invalid(_))));
    }

    #[test]
    fn cookie_alone_changes_nothing_for_a_page_of_another_site() {
        let origin = |value| (header::ORIGIN, value);
        for method in [
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ] {
            let ask = |given: &[_]| told(method.clone(), given);
            assert_eq!(ask(&[COOKIE]), Err(NotAdmitted::CrossSite), "{method}");
            let elsewhere = [COOKIE, (SITE, "same-site")];
            assert_eq!(ask(&elsewhere), Err(NotAdmitted::CrossSite), "{method}");
            let elsewhere = [COOKIE, origin("http://localhost:80")];
            assert_eq!(ask(&elsewhere), Err(NotAdmitted::CrossSite), "{method}");
            assert!(ask(&[COOKIE, (SITE, "same-origin")]).is_ok(), "{method}");
            assert!(
                ask(&[COOKIE, origin("http://localhost:7311")]).is_ok(),
                "{method}"
            );
            // What no page of another site can add.
            assert!(
                ask(&[(header::AUTHORIZATION, "Bearer given")]).is_ok(),
                "{method}"
            );
        }
        for method in [Method::GET, Method::HEAD] {
            assert!(told(method, &[COOKIE, (SITE, "cross-site")]).is_ok());
        }
    }
}
