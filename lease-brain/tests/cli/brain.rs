//! A real `brain` beside the command line.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
};

use mongodb::bson::{Document, doc};
use rustix::process::Signal;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::{
    processes::signal,
    support::{Output, SOON, World, until},
};

pub(crate) const SECRET: &str = "internal-secret-of-the-tests";

/// A brain that was started, killed when it goes out of scope.
pub(crate) struct Brain {
    child: Child,
    _secret: NamedTempFile,
    pub(crate) pod: String,
    pub(crate) endpoint: String,
}

impl Brain {
    /// Returns when it runs.
    #[track_caller]
    pub(crate) fn start(world: &World, node: &str) -> Self {
        Self::start_with(world, node, &["--reap-interval", "300ms"])
    }

    #[track_caller]
    pub(crate) fn start_with(world: &World, node: &str, options: &[&str]) -> Self {
        let mut brain = Self::launch(world, node, "127.0.0.1:0", options);
        let row = until(SOON, "a running brain", || {
            let pods = world.lease(&["pods", "--json"]).json();
            let mut pods = pods.as_array().unwrap().iter();
            let ours = |pod: &&serde_json::Value| {
                pod["nodeName"] == node && pod["status"] == "RUNNING" && pod["alive"] == json!(true)
            };
            pods.find(ours).cloned()
        });
        brain.pod = row["pod"].as_str().unwrap().to_owned();
        brain.endpoint = row["endpoint"].as_str().unwrap().to_owned();
        brain
    }

    /// Does not wait until it runs.
    pub(crate) fn launch(world: &World, node: &str, listen: &str, options: &[&str]) -> Self {
        let mut secret = NamedTempFile::new().unwrap();
        writeln!(secret, "{SECRET}").unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_brain"))
            .args([
                "--mongodb-uri",
                world.mongo.uri(),
                "--database",
                world.mongo.name(),
            ])
            .args(["--listen", listen, "--node-name", node])
            .args(["--heartbeat", "200ms", "--stale", "1s"])
            .args(options)
            .arg("--internal-token-file")
            .arg(secret.path())
            .env_remove("LEASE_INTERNAL_TOKEN")
            .env_remove("LEASE_INTERNAL_TOKEN_FILE")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            _secret: secret,
            pod: String::new(),
            endpoint: format!("http://{listen}"),
        }
    }

    pub(crate) fn signal(&self, number: Signal) {
        signal(self.child.id().cast_signed(), number);
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Brain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl World {
    /// The command of somebody who knows the secret.
    pub(crate) fn operator_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.env("LEASE_INTERNAL_TOKEN", SECRET);
        command
    }

    /// What it did. The secret is never part of that.
    #[track_caller]
    pub(crate) fn operator(&self, args: &[&str]) -> Output {
        let output = Output::of(&mut self.operator_command(args));
        assert!(
            !output.stdout.contains(SECRET) && !output.stderr.contains(SECRET),
            "the secret is told: {output:?}"
        );
        output
    }

    /// A lease of `pdf` whose clean-up calls this URL, in the name of a pod.
    pub(crate) async fn webhook(&self, user: &str, url: &str, pod: &str) -> String {
        let token = self.acquire(&[
            "pdf",
            "--user",
            user,
            "--holder-ref",
            &format!("job of {user}"),
        ]);
        let call =
            doc! { "type": "webhook", "pod": pod, "payload": { "url": url, "method": "POST" } };
        self.change(&token, call).await;
        token
    }

    /// Sets fields of a holder.
    pub(crate) async fn change(&self, token: &str, fields: Document) {
        let set = doc! { "$set": fields };
        let its = doc! { "_id": token };
        let changed = self.holders().update_one(its, set).await.unwrap();
        assert_eq!(changed.matched_count, 1);
    }

    /// Makes a revoked lease look as if its clean-up had failed ten times.
    pub(crate) async fn fail_cleanup(&self, token: &str, error: &str) {
        let later = doc! { "$set": {
            "state": "REVOKING",
            "revocation": {
                "reason": "revoke", "at": "$$NOW", "attempts": { "$literal": 10_i64 }, "failed": true,
                "lastError": error, "nextTryAt": { "$add": ["$$NOW", 3_000_000] },
            },
        } };
        let its = doc! { "_id": token };
        let changed = self.holders().update_one(its, vec![later]).await.unwrap();
        assert_eq!(changed.matched_count, 1);
    }

    /// Waits until there is no holder and no token left.
    #[track_caller]
    pub(crate) fn until_nothing_is_stored(&self) {
        until(SOON, "nothing stored", || {
            let counters = self.lease(&["counters", "--json"]).json();
            let mut counters = counters.as_array().unwrap().iter();
            let free = counters.all(|counter| counter["count"] == 0);
            (free && self.lease(&["list", "--json"]).json() == json!([])).then_some(())
        });
    }
}

/// Writes the row of a pod that looks alive for minutes, and is not there.
pub(crate) async fn pretend(world: &World, node: &str, endpoint: &str, status: &str) {
    let row = doc! { "$set": {
        "clusterId": "default", "nodeName": node, "endpoint": endpoint, "status": status, "bootedAt": "$$NOW",
        "lastHeartbeatAt": { "$add": ["$$NOW", 60_000] }, "writtenAt": "$$NOW", "staleMillis": 600_000,
    } };
    let id = doc! { "_id": NO_POD };
    let pods = world.pods();
    pods.update_one(id, vec![row]).upsert(true).await.unwrap();
}

/// The id of a pod that is not there.
pub(crate) const NO_POD: &str = "1f0c9a6e-0000-4000-8000-000000000000";
