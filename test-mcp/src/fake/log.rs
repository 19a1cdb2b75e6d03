//! What was asked.

use axum::http::{HeaderMap, Method};
use serde_json::Value;

use super::Step;

/// One request, as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `POST`, `GET`, `DELETE`
    pub http: String,
    /// The JSON-RPC method of a POST.
    pub method: Option<String>,
    /// `mcp-session-id`
    pub session: Option<String>,
    /// `authorization`
    pub authorization: Option<String>,
    /// `mcp-protocol-version`
    pub version: Option<String>,
    /// The body of a POST, or null.
    pub body: Value,
}

impl Request {
    pub(super) fn read(method: &Method, headers: &HeaderMap, body: &[u8]) -> Self {
        let header = |name: &str| {
            headers
                .get(name)
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into())
        };
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        Self {
            http: method.to_string(),
            method: body["method"].as_str().map(str::to_owned),
            session: header("mcp-session-id"),
            authorization: header("authorization"),
            version: header("mcp-protocol-version"),
            body,
        }
    }

    /// What kind of request it is, if it is one that the server knows.
    pub fn step(&self) -> Option<Step> {
        match (self.http.as_str(), self.method.as_deref()) {
            ("GET", _) => Some(Step::Stream),
            ("DELETE", _) => Some(Step::Delete),
            ("POST", Some("initialize")) => Some(Step::Initialize),
            ("POST", Some("notifications/initialized")) => Some(Step::Initialized),
            ("POST", Some("notifications/cancelled")) => Some(Step::Cancelled),
            ("POST", Some("tools/list")) => Some(Step::List),
            ("POST", Some("tools/call")) => Some(Step::Call),
            _ => None,
        }
    }
}
