//! Definitions and tools that live in a directory.

use lease_shared::definition::{ConfigDocuments, DirectoryDocuments, DocumentAddress};
use serde_json::json;
use test_mcp::fake::FakeMcp;
use test_mongo::eventually;

use super::{ADA, BOB, call, parameters, result};
use crate::fleet::{Fleet, PodOptions, SOON};

async fn define(documents: &ConfigDocuments, slots: u32) {
    let address = DocumentAddress::lease("_vance", "_tenant", &"session".parse().unwrap());
    let text =
        format!("name: session\nlevels: {{ global: {slots} }}\nttlSeconds: 600\nwaitMs: 0\n");
    documents.put(&address.unwrap(), &text).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn brain_acquires_by_what_a_directory_says_and_hears_of_changes() {
    let fleet = Fleet::new().await;
    let server = FakeMcp::start().await;
    let folder = tempfile::tempdir().unwrap();
    let documents = ConfigDocuments::Directory(DirectoryDocuments::new(folder.path()));
    define(&documents, 1).await;
    let tool = json!({ "type": "mcp_server", "parameters": parameters(&server) }).to_string();
    let address = DocumentAddress::new("_vance", "_tenant", "_vance/config/tools/fake.yaml");
    documents.put(&address.unwrap(), &tool).await.unwrap();
    // The store has other documents, which are not asked.
    fleet
        .define("session", "levels: { global: 9 }\nttlSeconds: 60")
        .await;
    let at = format!("--documents=dir:{}", folder.path().display());
    let pod = fleet.pod_with("a", PodOptions::with(&[&at])).await;
    result(&call(&pod, "fake", ADA, "echo", json!({})).await);
    let [holder] = &fleet.sessions().await[..] else {
        panic!("{:?}", fleet.sessions().await);
    };
    assert_eq!(holder.get_i64("ttlSeconds").unwrap(), 600);
    let busy = call(&pod, "fake", BOB, "echo", json!({})).await;
    assert_eq!(busy.refusal(), (409, "LEASE_BUSY".to_owned()), "{busy:?}");
    define(&documents, 2).await;
    eventually("there is a slot for another", SOON, async || {
        let reply = call(&pod, "fake", BOB, "echo", json!({})).await;
        Ok(reply.status.is_success())
    })
    .await
    .unwrap();
    assert_eq!(fleet.booked().await, 2);
}
