//! Sessions at MCP servers, each under a lease: against a fake that fails as it is told, and against real servers.

mod directory;
mod elsewhere;
mod real;
mod session;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use lease_brain::api::{SessionClosed, ToolReply, ToolsReply};
use lease_shared::LeaseToken;
use lease_shared::definition::DocumentAddress;
use mongodb::bson::{Document, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ChangeStreamEvent;
use reqwest::Method;
use serde_json::{Value, json};
use test_mcp::fake::FakeMcp;
use test_mongo::eventually;
use tokio::time::timeout;

use crate::asking::{Reply, internal, send};
use crate::fleet::{Fleet, Pod, SOON};

/// A fake server, a tool that names it, and its exclusive lease of each user.
async fn fake(fleet: &Fleet) -> FakeMcp {
    let server = FakeMcp::start().await;
    let wait = "levels: { user: 1 }\nttlSeconds: 600\nwaitMs: 0";
    fleet.define("session", wait).await;
    fleet.tool("fake", &parameters(&server)).await;
    server
}

fn parameters(server: &FakeMcp) -> Value {
    json!({ "transport": "http", "url": server.url(), "lease": "session" })
}

/// Someone whose session it is.
#[derive(Clone, Copy)]
struct Whose {
    project: &'static str,
    user: &'static str,
}

const ADA: Whose = Whose {
    project: "thesis",
    user: "ada",
};
const BOB: Whose = Whose {
    project: "thesis",
    user: "bob",
};

impl Fleet {
    /// Writes the document of the tool `name` into the system layer.
    async fn tool(&self, name: &str, parameters: &Value) {
        self.tool_in("_vance", "_tenant", name, parameters).await;
    }

    async fn tool_in(&self, tenant: &str, project: &str, name: &str, parameters: &Value) {
        let path = format!("_vance/config/tools/{name}.yaml");
        let address = DocumentAddress::new(tenant, project, path).unwrap();
        let text = json!({ "type": "mcp_server", "parameters": parameters });
        let documents = self.leases.definitions();
        documents.put(&address, &text.to_string()).await.unwrap();
    }

    /// The leases of sessions.
    async fn sessions(&self) -> Vec<Document> {
        let mcp = doc! { "type": "mcp" };
        let found = self.holders().find(mcp).await.unwrap();
        found.try_collect().await.unwrap()
    }

    /// The lease of that user's session.
    async fn session_of(&self, user: &str) -> LeaseToken {
        let its = doc! { "type": "mcp", "userId": user };
        let holder = self.holders().find_one(its).await.unwrap();
        let holder = holder.expect("there is a session");
        LeaseToken::new(holder.get_str("_id").unwrap()).unwrap()
    }

    async fn no_sessions(&self) {
        eventually("no session is left, and no slot", SOON, async || {
            Ok(self.sessions().await.is_empty() && self.booked().await == 0)
        })
        .await
        .unwrap();
    }
}

/// What the acquirers begin: an attempt that finds its counter full is seen too.
struct Attempts(ChangeStream<ChangeStreamEvent<Document>>);

impl Attempts {
    async fn from_now(fleet: &Fleet) -> Self {
        Self(fleet.holders().watch().await.unwrap())
    }

    /// Waits for one by that user.
    async fn of(&mut self, user: &str) {
        let by = |event: &ChangeStreamEvent<Document>| {
            let holder = event.full_document.as_ref()?;
            Some(holder.get_str("userId").ok()? == user)
        };
        let seen = async {
            while let Some(event) = self.0.next().await {
                if by(&event.unwrap()) == Some(true) {
                    return;
                }
            }
        };
        timeout(SOON, seen).await.expect("an attempt is made");
    }
}

async fn ask(pod: &Pod, tool: &str, verb: &str, body: &Value) -> Reply {
    let path = format!("/internal/mcp/{tool}/{verb}");
    let call = internal(pod, Method::POST, &path).json(body);
    send(call.timeout(Duration::from_secs(90))).await
}

fn of(whose: Whose) -> Value {
    json!({ "tenant": "acme", "project": whose.project, "user": whose.user })
}

async fn call(pod: &Pod, tool: &str, whose: Whose, name: &str, arguments: Value) -> Reply {
    let mut body = of(whose);
    body["name"] = json!(name);
    body["arguments"] = arguments;
    ask(pod, tool, "call", &body).await
}

/// What a call gave that the server did not call an error.
#[track_caller]
fn result(reply: &Reply) -> Value {
    assert!(reply.status.is_success(), "{reply:?}");
    let result = reply.json::<ToolReply>().result;
    assert_ne!(result["isError"], json!(true), "{reply:?}");
    result
}

#[track_caller]
fn text(reply: &Reply) -> String {
    result(reply)["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn tools(pod: &Pod, tool: &str, whose: Whose) -> BTreeMap<String, Value> {
    let reply = ask(pod, tool, "tools", &of(whose)).await;
    assert!(reply.status.is_success(), "{reply:?}");
    let offered = reply.json::<ToolsReply>().tools.into_iter();
    offered.map(|tool| (tool.name, tool.input_schema)).collect()
}

async fn close(pod: &Pod, tool: &str, whose: Whose) -> bool {
    let reply = ask(pod, tool, "close", &of(whose)).await;
    assert!(reply.status.is_success(), "{reply:?}");
    reply.json::<SessionClosed>().closed
}
