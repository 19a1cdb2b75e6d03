//! From where a browser sends a request, as it says itself.

use axum::http::{HeaderMap, HeaderName, header};

use crate::access::is_loopback;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a page of this very site has sent it.
///
/// A browser says so in one of two headers, which pages cannot set. What says neither is taken for another's: a request that
/// changes something is not to be made by a page that somebody else has written, with the cookie of who looks at it.
pub(super) fn is_same_origin(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(FETCH_SITE).iter().peekable();
    if sites.peek().is_some() {
        return sites.all(|site| site == "same-origin");
    }
    let (Some(origin), Some(host)) = (only(headers, header::ORIGIN), only(headers, header::HOST))
    else {
        return false;
    };
    let (authority, port) = match origin.split_once("://") {
        Some(("https", authority)) => (authority, ":443"),
        Some(("http", authority)) => (authority, ":80"),
        _ => return false,
    };
    // Either side may leave out the port that the scheme has anyway.
    let plain = |authority: &str| {
        let shortened = authority.strip_suffix(port).unwrap_or(authority);
        shortened.to_ascii_lowercase()
    };
    !authority.is_empty() && plain(authority) == plain(host)
}

/// Whether it was made to this machine itself, and nobody passed it on: then there is no TLS, and no need of it.
///
/// A proxy may call its own name for the brain the host, and not say that it is one. Then the origin of a form tells, which
/// is the browser's word.
pub(super) fn is_local(headers: &HeaderMap) -> bool {
    let passed_on =
        |name: &HeaderName| *name == header::FORWARDED || name.as_str().starts_with("x-forwarded-");
    let Some(host) = only(headers, header::HOST) else {
        return false;
    };
    let from_elsewhere = headers.get_all(header::ORIGIN).iter().any(|origin| {
        let authority = origin.to_str().ok().and_then(|text| text.split_once("://"));
        !authority.is_some_and(|(_, authority)| is_loopback(name_of(authority)))
    });
    is_loopback(name_of(host)) && !from_elsewhere && !headers.keys().any(passed_on)
}

/// An authority without its port. The last colon of an IPv6 address without a port is within brackets.
fn name_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => authority,
    }
}

/// The value of a header that is there once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&str, &str)]) -> HeaderMap {
        let pairs = given.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, value.parse().unwrap())
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn only_what_a_browser_calls_its_own_site_is_that() {
        let site = "sec-fetch-site";
        let rows: [(&[(&str, &str)], bool); 19] = [
            (&[(site, "same-origin")], true),
            (&[(site, "same-site")], false),
            (&[(site, "cross-site")], false),
            (&[(site, "none")], false),
            (&[(site, "")], false),
            (&[(site, "same-origin"), (site, "cross-site")], false),
            (
                &[(site, "cross-site"), ("origin", "http://a"), ("host", "a")],
                false,
            ),
            (
                &[(site, "same-origin"), ("origin", "http://b"), ("host", "a")],
                true,
            ),
            (&[("origin", "http://a:7311"), ("host", "a:7311")], true),
            (&[("origin", "http://A"), ("host", "a")], true),
            (&[("origin", "https://a"), ("host", "a:443")], true),
            (&[("origin", "https://a"), ("host", "a:80")], false),
            (&[("origin", "http://a:1"), ("host", "a:2")], false),
            (&[("origin", "http://a.b"), ("host", "a")], false),
            (&[("origin", "null"), ("host", "a")], false),
            (&[("origin", "http://"), ("host", "")], false),
            (
                &[
                    ("origin", "http://a"),
                    ("origin", "http://b"),
                    ("host", "a"),
                ],
                false,
            ),
            (&[("host", "a"), ("referer", "http://a/")], false),
            (&[], false),
        ];
        for (given, expected) in rows {
            assert_eq!(is_same_origin(&headers(given)), expected, "{given:?}");
        }
    }

    #[test]
    fn local_is_what_nobody_has_passed_on() {
        let rows: [(&[(&str, &str)], bool); 16] = [
            (
                &[
                    ("host", "localhost:7311"),
                    ("origin", "http://localhost:7311"),
                ],
                true,
            ),
            (
                &[
                    ("host", "localhost:7311"),
                    ("origin", "https://lease.example"),
                ],
                false,
            ),
            (&[("host", "localhost:7311"), ("origin", "null")], false),
            (&[("host", "localhost:7311")], true),
            (&[("host", "localhost")], true),
            (&[("host", "127.0.0.1:7311")], true),
            (&[("host", "[::1]:7311")], true),
            (&[("host", "[::1]")], true),
            (&[("host", "lease.example")], false),
            (&[("host", "127.0.0.1.example:80")], false),
            (&[("host", "[::2]:80")], false),
            (&[("host", "localhost"), ("host", "localhost")], false),
            (
                &[("host", "localhost"), ("x-forwarded-for", "10.0.0.1")],
                false,
            ),
            (
                &[("host", "localhost"), ("x-forwarded-proto", "https")],
                false,
            ),
            (
                &[("host", "localhost"), ("forwarded", "for=10.0.0.1")],
                false,
            ),
            (&[], false),
        ];
        for (given, expected) in rows {
            assert_eq!(is_local(&headers(given)), expected, "{given:?}");
        }
    }
}
