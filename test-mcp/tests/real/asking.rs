//! A session in plain HTTP, so that what is tested here is the server and no client of ours.

use anyhow::{Context as _, Result};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

const SESSION: &str = "mcp-session-id";

pub(crate) struct Session {
    client: Client,
    url: String,
    id: String,
}

impl Session {
    /// Initialized, and what the server said of itself.
    pub(crate) async fn open(url: &str) -> Result<(Self, Value)> {
        // A client is made with TLS even where it is not used, and that needs a provider; a second one is refused.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().build()?;
        let mut session = Self {
            client,
            url: url.to_owned(),
            id: String::new(),
        };
        let parameters = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test-mcp", "version": "0" },
        });
        let initialize =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": parameters });
        let response = session.post(&initialize).await?;
        let id = response.headers().get(SESSION).context("no session id")?;
        session.id = id.to_str()?.to_owned();
        let answer = result(response).await?;
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        session.post(&initialized).await?;
        Ok((session, answer))
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The text of a tool's answer.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<String> {
        let parameters = json!({ "name": tool, "arguments": arguments });
        let call =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters });
        let answer = result(self.post(&call).await?).await?;
        let text = answer["content"][0]["text"].as_str();
        Ok(text.context(answer.to_string())?.to_owned())
    }

    /// The status of the answer to a DELETE.
    pub(crate) async fn delete(&self) -> Result<StatusCode> {
        let request = self.client.delete(&self.url).header(SESSION, &self.id);
        Ok(request.send().await?.status())
    }

    async fn post(&self, message: &Value) -> Result<Response> {
        let mut request = self
            .client
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .json(message);
        if !self.id.is_empty() {
            request = request.header(SESSION, &self.id);
        }
        Ok(request.send().await?.error_for_status()?)
    }
}

/// Of the one event of a stream that has an answer.
async fn result(response: Response) -> Result<Value> {
    let text = response.text().await?;
    let answers = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let mut results = answers.filter_map(|answer| answer.get("result").cloned());
    results
        .next()
        .with_context(|| format!("no result in {text}"))
}
