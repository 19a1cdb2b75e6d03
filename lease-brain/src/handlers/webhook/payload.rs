use std::collections::BTreeMap;
use std::fmt;

use axum::http::Uri;
use mongodb::bson::{Bson, Document, doc};
use reqwest::header::HeaderName;
use reqwest::{Method, Url};

use crate::secrets::SecretName;

/// How an address may be called.
const METHODS: [Method; 5] = [
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
    Method::GET,
];
/// The largest URL, as written and as sent.
const MAX_URL: usize = 2048;
/// The largest body.
const MAX_BODY: usize = 16 * 1024;
/// The most headers.
const MAX_HEADERS: usize = 16;
/// The longest name of a header.
const MAX_HEADER_NAME: usize = 64;

/// What belongs to the connection or to the message's frame, and the key that the call sets itself.
const RESERVED_HEADERS: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Ours, now and later.
const RESERVED_PREFIX: &str = "x-lease-";

/// The payload of a lease of type `webhook`: which address is called when the lease is revoked.
///
/// It is stored with the lease and shown to operators, so it holds no credential: the value of each header is the name of
/// a secret, which the handler looks up when it calls.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookPayload {
    url: Url,
    method: Method,
    body: Option<String>,
    headers: BTreeMap<String, SecretName>,
}

/// Which part of a payload is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadKey {
    /// `url`
    Url,
    /// `method`
    Method,
    /// `body`
    Body,
    /// `headers`, all of them
    Headers,
    /// One header: of its name, as much as may stand in one. What follows may be a credential in the wrong place.
    Header(String),
    /// A key that no payload has, as much of it as may stand in one.
    Unknown(String),
}

/// A payload that cannot be called, with the rule that it breaks. It shows no value, which may be a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("webhook payload: {key} {rule}")]
pub struct InvalidPayload {
    /// What is wrong.
    pub key: PayloadKey,
    /// What it has to be.
    pub rule: &'static str,
}

impl WebhookPayload {
    /// Calls `url`, `http` or `https`, with a POST that has no body.
    pub fn new(url: &str) -> Result<Self, InvalidPayload> {
        Ok(Self {
            url: checked_url(url).map_err(|rule| PayloadKey::Url.breaks(rule))?,
            method: Method::POST,
            body: None,
            headers: BTreeMap::new(),
        })
    }

    /// With this method in place of POST.
    pub fn with_method(mut self, method: &str) -> Result<Self, InvalidPayload> {
        self.method = METHODS
            .into_iter()
            .find(|known| known.as_str() == method)
            .ok_or_else(|| PayloadKey::Method.breaks("must be POST, PUT, DELETE, PATCH or GET"))?;
        Ok(self)
    }

    /// With this body: `application/json` if it is JSON, otherwise `text/plain`.
    pub fn with_body(mut self, body: &str) -> Result<Self, InvalidPayload> {
        let problem = match body {
            _ if body.len() > MAX_BODY => "must be at most 16 KiB",
            _ if body.contains(SECRET) => ONLY_IN_HEADERS,
            _ => {
                self.body = Some(body.to_owned());
                return Ok(self);
            }
        };
        Err(PayloadKey::Body.breaks(problem))
    }

    /// With one header more, whose value is exactly `{{secret:NAME}}`.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, InvalidPayload> {
        let breaks = |rule| PayloadKey::Header(shown(name)).breaks(rule);
        if self.headers.len() == MAX_HEADERS {
            return Err(PayloadKey::Headers.breaks("must be at most 16"));
        }
        if !is_header_name(name) {
            return Err(breaks(
                "must be named by 1 to 64 letters, digits, `-` and `_`",
            ));
        }
        let name = name.to_ascii_lowercase();
        if RESERVED_HEADERS.contains(&name.as_str()) || name.starts_with(RESERVED_PREFIX) {
            return Err(breaks("is set by the call itself"));
        }
        let secret = SecretName::from_reference(value).ok_or_else(|| {
            breaks("must have exactly `{{secret:NAME}}` as its value, for no credential is stored")
        })?;
        match self.headers.insert(name, secret) {
            None => Ok(self),
            Some(_) => Err(breaks("must not be there twice")),
        }
    }

    /// Reads what [`WebhookPayload::to_document`] writes. An empty document is none, but is not asked here.
    pub fn parse(document: &Document) -> Result<Self, InvalidPayload> {
        for key in document.keys() {
            if !matches!(key.as_str(), "url" | "method" | "body" | "headers") {
                let rule = "is no key of a webhook's payload";
                return Err(PayloadKey::Unknown(shown(key)).breaks(rule));
            }
        }
        let url =
            text(document, PayloadKey::Url)?.ok_or_else(|| PayloadKey::Url.breaks("is missing"))?;
        let mut payload = Self::new(url)?;
        if let Some(method) = text(document, PayloadKey::Method)? {
            payload = payload.with_method(method)?;
        }
        if let Some(body) = text(document, PayloadKey::Body)? {
            payload = payload.with_body(body)?;
        }
        let headers = match document.get("headers") {
            None => return Ok(payload),
            Some(Bson::Document(headers)) => headers,
            Some(_) => return Err(PayloadKey::Headers.breaks("must map names to secrets")),
        };
        for (name, value) in headers {
            let value = value.as_str();
            let value = value.ok_or_else(|| PayloadKey::Header(shown(name)).breaks(A_TEXT))?;
            payload = payload.with_header(name, value)?;
        }
        Ok(payload)
    }

    /// The payload as it is stored.
    pub fn to_document(&self) -> Document {
        let mut document = doc! { "url": self.url.as_str(), "method": self.method.as_str() };
        if let Some(body) = &self.body {
            document.insert("body", body);
        }
        if !self.headers.is_empty() {
            let headers: Document = self
                .headers
                .iter()
                .map(|(name, secret)| (name.clone(), secret.reference().into()))
                .collect();
            document.insert("headers", headers);
        }
        document
    }

    /// Host and port, which may be told where path and query may not.
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Headers by their names in lower case.
    pub(super) fn headers(&self) -> &BTreeMap<String, SecretName> {
        &self.headers
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    pub(super) fn body(&self) -> Option<&str> {
        self.body.as_deref()
    }
}

/// Without path, query and body, which may let their reader do something.
impl fmt::Debug for WebhookPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookPayload")
            .field("method", &self.method)
            .field("host", &self.host())
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl PayloadKey {
    fn breaks(self, rule: &'static str) -> InvalidPayload {
        InvalidPayload { key: self, rule }
    }
}

impl fmt::Display for PayloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url => f.write_str("url"),
            Self::Method => f.write_str("method"),
            Self::Body => f.write_str("body"),
            Self::Headers => f.write_str("headers"),
            Self::Header(name) => write!(f, "headers.{name}"),
            Self::Unknown(key) => write!(f, "{key}"),
        }
    }
}

const A_TEXT: &str = "must be a text";

fn text(document: &Document, key: PayloadKey) -> Result<Option<&str>, InvalidPayload> {
    match document.get(key.to_string()) {
        Some(Bson::String(text)) => Ok(Some(text)),
        None => Ok(None),
        Some(_) => Err(key.breaks(A_TEXT)),
    }
}

/// What may be taken for a secret to fill in.
const SECRET: &str = "{{secret:";
const ONLY_IN_HEADERS: &str = "must name no secret, which only a header can";

fn checked_url(text: &str) -> Result<Url, &'static str> {
    const TOO_LONG: &str = "must be at most 2048 bytes";
    const WHOLE: &str = "must be a whole address, as in https://host/path";
    if text.len() > MAX_URL {
        return Err(TOO_LONG);
    }
    if text.contains(SECRET) {
        return Err(ONLY_IN_HEADERS);
    }
    // The parser drops some of them in silence.
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("must have no blanks and control characters; percent-encode them");
    }
    let url = Url::parse(text).map_err(|_| WHOLE)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have no user and password; a header can name them as a secret");
    }
    if url.fragment().is_some() {
        return Err("must have no fragment (`#…`), which is never sent");
    }
    if url.as_str().len() > MAX_URL {
        return Err(TOO_LONG);
    }
    // Narrower than the parser, and what the client goes by.
    match url.as_str().parse::<Uri>() {
        Ok(_) => Ok(url),
        Err(_) => Err(WHOLE),
    }
}

/// Narrower than HTTP, so that a name is a plain key of a stored document too.
fn is_header_name(name: &str) -> bool {
    (1..=MAX_HEADER_NAME).contains(&name.len())
        && name.chars().all(is_name_char)
        && HeaderName::from_bytes(name.as_bytes()).is_ok()
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// As much of a key as is one: `Authorization: Bearer x` is a name with its credential.
fn shown(key: &str) -> String {
    let end = key.find(|c| !is_name_char(c)).unwrap_or(key.len());
    let name: String = key[..end].chars().take(MAX_HEADER_NAME).collect();
    match name.len() == key.len() {
        true => name,
        false => name + "…",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://plug.example:8443/bench/7?key=abc";

    fn with_url(url: &str) -> Document {
        doc! { "url": url }
    }

    fn with(key: &str, value: impl Into<Bson>) -> Document {
        let mut document = with_url(URL);
        document.insert(key, value);
        document
    }

    /// Reading it fails with this text.
    #[track_caller]
    fn check(document: &Document, problem: &str) {
        let error = WebhookPayload::parse(document).expect_err(problem);
        assert_eq!(error.to_string(), format!("webhook payload: {problem}"));
    }

    #[test]
    fn stored_payload_is_read_back() {
        let written = WebhookPayload::new(URL)
            .and_then(|it| it.with_method("DELETE"))
            .and_then(|it| it.with_body("{\"off\": true}"))
            .and_then(|it| it.with_header("Authorization", "{{secret:PLUG}}"))
            .and_then(|it| it.with_header("x-other_1", "{{secret:a.b}}"))
            .unwrap();
        let document = written.to_document();
        let expected = doc! {
            "url": URL,
            "method": "DELETE",
            "body": "{\"off\": true}",
            "headers": { "authorization": "{{secret:PLUG}}", "x-other_1": "{{secret:a.b}}" },
        };
        assert_eq!(document, expected);
        assert_eq!(WebhookPayload::parse(&document), Ok(written));
        let least = WebhookPayload::parse(&with_url("http://h")).unwrap();
        assert_eq!(
            least.to_document(),
            doc! { "url": "http://h/", "method": "POST" }
        );
    }

    #[test]
    fn debug_and_host_tell_no_path() {
        let payload = WebhookPayload::new(URL).unwrap().with_body("abc").unwrap();
        assert_eq!(payload.host(), "plug.example:8443");
        let debug = format!("{payload:?}");
        assert!(debug.contains("plug.example:8443"), "{debug}");
        assert!(
            !debug.contains("abc") && !debug.contains("bench"),
            "{debug}"
        );
    }

    #[test]
    fn only_plain_web_addresses_are_called() {
        for good in [
            "http://localhost:8080",
            "HTTPS://Host/p?q=%23",
            "http://[::1]/",
            "https://hôte/é",
            "http://h/{x}?a|b=\"[c]\"^`",
        ] {
            WebhookPayload::new(good).expect(good);
        }
        let limit = |fill: &str, count: usize| format!("https://h/{}", fill.repeat(count));
        let longest = limit("x", MAX_URL - "https://h/".len());
        WebhookPayload::new(&longest).unwrap();
        // Short when it is sent, and the other way round.
        let detour = limit("x/../", MAX_URL / 5);
        let encoded = limit("é", MAX_URL / 4);
        for (bad, problem) in [
            (longest.clone() + "x", "url must be at most 2048 bytes"),
            (detour, "url must be at most 2048 bytes"),
            (encoded, "url must be at most 2048 bytes"),
        ] {
            check(&with_url(&bad), problem);
        }
        const WHOLE: &str = "url must be a whole address, as in https://host/path";
        const SCHEME: &str = "url must begin with http:// or https://";
        const USER: &str = "url must have no user and password; a header can name them as a secret";
        const BLANK: &str = "url must have no blanks and control characters; percent-encode them";
        const FRAGMENT: &str = "url must have no fragment (`#…`), which is never sent";
        for (bad, problem) in [
            ("", WHOLE),
            ("plug.example/off", WHOLE),
            ("/off", WHOLE),
            ("https://", WHOLE),
            ("http://h:99999/", WHOLE),
            ("http://a\"b/", WHOLE),
            ("ftp://h/", SCHEME),
            ("file:///etc/passwd", SCHEME),
            ("unix:/run/docker.sock", SCHEME),
            ("https://ada@h/", USER),
            ("https://ada:pw@h/", USER),
            ("https://:pw@h/", USER),
            ("https://h/#top", FRAGMENT),
            ("https://h/#", FRAGMENT),
            (" https://h/", BLANK),
            ("https://h/\n", BLANK),
            ("https://h/a b", BLANK),
            (
                "https://h/{{secret:KEY}}",
                "url must name no secret, which only a header can",
            ),
        ] {
            check(&with_url(bad), problem);
        }
    }

    #[test]
    fn value_of_a_header_is_the_name_of_a_secret() {
        const VALUE: &str =
            "must have exactly `{{secret:NAME}}` as its value, for no credential is stored";
        for value in [
            "",
            "abc",
            "Bearer {{secret:a}}",
            "{{secret:a}} ",
            "{{secret:..}}",
        ] {
            let problem = format!("headers.Authorization {VALUE}");
            check(&with("headers", doc! { "Authorization": value }), &problem);
        }
        const NAME: &str = "must be named by 1 to 64 letters, digits, `-` and `_`";
        let long = "x".repeat(65);
        for (name, shown) in [
            ("", ""),
            ("Authorization: Bearer abc", "Authorization…"),
            ("a.b", "a…"),
            ("$set", "…"),
            ("a\r\nb", "a…"),
            ("é", "…"),
            (&long, &format!("{}…", &long[..64])),
        ] {
            let problem = format!("headers.{shown} {NAME}");
            check(&with("headers", doc! { name: "{{secret:a}}" }), &problem);
        }
        for name in [
            "Host",
            "content-length",
            "Connection",
            "Transfer-Encoding",
            "TE",
            "Trailer",
            "Upgrade",
            "Keep-Alive",
            "Proxy-Authorization",
            "Expect",
            "Idempotency-Key",
            "X-Lease-Reason",
            "X-Lease-Token",
        ] {
            let problem = format!("headers.{name} is set by the call itself");
            check(&with("headers", doc! { name: "{{secret:a}}" }), &problem);
        }
        let twice = doc! { "Api-Key": "{{secret:a}}", "api-key": "{{secret:b}}" };
        check(
            &with("headers", twice),
            "headers.api-key must not be there twice",
        );
        let many = |count: usize| -> Document {
            let entry = |n| (format!("h{n}"), "{{secret:a}}".into());
            (0..count).map(entry).collect()
        };
        WebhookPayload::parse(&with("headers", many(16))).unwrap();
        check(&with("headers", many(17)), "headers must be at most 16");
    }

    #[test]
    fn malformed_payload_is_refused_by_its_key() {
        const METHOD: &str = "method must be POST, PUT, DELETE, PATCH or GET";
        check(&doc! { "method": "POST" }, "url is missing");
        check(&doc! { "url": 7 }, "url must be a text");
        check(&with("method", "HEAD"), METHOD);
        check(&with("method", "post"), METHOD);
        check(&with("method", Bson::Null), "method must be a text");
        check(&with("body", doc! { "a": 1 }), "body must be a text");
        check(
            &with("body", "x".repeat(MAX_BODY + 1)),
            "body must be at most 16 KiB",
        );
        WebhookPayload::parse(&with("body", "x".repeat(MAX_BODY))).unwrap();
        check(
            &with("body", "{\"key\": \"{{secret:a}}\"}"),
            "body must name no secret, which only a header can",
        );
        check(&with("headers", "a"), "headers must map names to secrets");
        check(
            &with("headers", doc! { "a": 1 }),
            "headers.a must be a text",
        );
        check(
            &with("token", "abc"),
            "token is no key of a webhook's payload",
        );
        check(
            &with("Bearer abc", "x"),
            "Bearer… is no key of a webhook's payload",
        );
    }
}
