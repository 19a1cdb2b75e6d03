//! The tenant's leases, for programs: what is seen of them, and what is done about them.

mod acting;
mod fuzz;
mod looking;
mod store_down;

use lease_shared::{Lease, LeaseRef, LeaseRequest, LeaseToken, LeaseType, Tenancy};
use mongodb::bson::{Document, doc};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

use super::World;
use super::tokens::token as signed;
use crate::fleet::token;

/// Somebody who administers a tenant.
pub(super) struct Admin<'a> {
    world: &'a World,
    tenant: String,
    token: String,
}

impl World {
    /// `subject`, as administrator of `tenant`.
    pub(super) fn admin(&self, tenant: &str, subject: &str) -> Admin<'_> {
        Admin {
            world: self,
            tenant: tenant.to_owned(),
            token: signed(json!({ "tenant": tenant, "sub": subject })),
        }
    }

    /// A lease of `user` in a tenant, that does not depend on any pod.
    pub(super) async fn held(&self, tenant: &str, user: &str) -> LeaseToken {
        token(self.lease(tenant, user, doc! {}).await)
    }

    pub(super) async fn lease(&self, tenant: &str, user: &str, payload: Document) -> Lease {
        let request = LeaseRequest::builder()
            .lease_type(LeaseType::new("webhook").unwrap())
            .lease(LeaseRef::named(crate::fleet::BENCH).unwrap())
            .tenancy(Tenancy::new(tenant, "thesis", user).unwrap())
            .holder_ref(format!("{user}'s job"))
            .payload(payload)
            .build();
        self.fleet.leases.acquire(request).await.unwrap()
    }
}

impl Admin<'_> {
    fn url(&self, below: &str) -> String {
        let tenant = utf8_percent_encode(&self.tenant, NON_ALPHANUMERIC);
        format!("/api/insights/{tenant}/{below}")
    }

    /// The status, and the body if it is JSON.
    async fn call(&self, method: Method, below: &str, body: Option<Value>) -> (u16, Value) {
        let mut call = self.world.ask(method, &self.url(below));
        call = call.bearer_auth(&self.token);
        if let Some(body) = body {
            call = call.json(&body);
        }
        let answer = call.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    async fn get(&self, below: &str) -> Value {
        let (status, body) = self.call(Method::GET, below, None).await;
        assert_eq!(status, 200, "{below}: {body}");
        body
    }

    async fn post(&self, below: &str, body: Value) -> (u16, Value) {
        self.call(Method::POST, below, Some(body)).await
    }

    /// Revokes what was seen as held.
    async fn revoke(&self, token: &LeaseToken, reason: Option<&str>) -> (u16, Value) {
        let call = json!({ "state": "HELD", "reason": reason });
        self.post(&format!("holders/{token}/revoke"), call).await
    }
}

/// The refs of the leases in a list.
fn refs(list: &Value) -> Vec<&str> {
    let entries = list["entries"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["holderRef"].as_str().unwrap())
        .collect()
}
