//! One `brain` process.

use std::fs::{self, File};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use lease_brain::api::{INTERNAL_TOKEN, Problem, RevokedCall};
use lease_shared::{LeaseToken, PodId};
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use rustix::process::{Pid, Signal, kill_process};
use rustls::crypto::{CryptoProvider, ring};
use tempfile::TempDir;
use test_mongo::{TestMongo, eventually};

use super::SOON;

/// What all pods of a test call each other with.
pub(crate) const SECRET: &str = "internal-secret-of-a-test";

/// What a test says to its pods beyond the usual.
#[derive(Default)]
pub(crate) struct PodOptions {
    /// Further arguments.
    pub(crate) args: Vec<String>,
    /// Without the secret of internal calls.
    pub(crate) no_secret: bool,
    /// The brain that acquires as well.
    pub(crate) actor: bool,
}

impl PodOptions {
    pub(crate) fn with(args: &[&str]) -> Self {
        Self {
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            ..Self::default()
        }
    }
}

/// A process, killed when dropped.
pub(crate) struct Pod {
    pub(crate) id: PodId,
    pub(crate) endpoint: String,
    child: Child,
    folder: TempDir,
}

impl Pod {
    pub(crate) async fn start(mongo: &TestMongo, name: &str, options: PodOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(match options.actor {
            true => env!("CARGO_BIN_EXE_brain-actor"),
            false => env!("CARGO_BIN_EXE_brain"),
        });
        command.args(["--listen", "127.0.0.1:0", "--node-name", name]);
        command.args(&options.args);
        command
            // An argument wins over its variable.
            .env("BRAIN_HEARTBEAT", "200ms")
            .env("BRAIN_STALE", "2s")
            .env("LEASE_REAP_INTERVAL", "300ms")
            .env("MONGODB_URI", mongo.uri())
            .env("LEASE_DATABASE", mongo.name())
            .env_remove("LEASE_INTERNAL_TOKEN")
            .env_remove("LEASE_INTERNAL_TOKEN_FILE")
            .env_remove("LEASE_JWT_AUDIENCE")
            .env_remove("LEASE_JWT_ISSUER")
            .env_remove("LEASE_JWT_JWKS")
            .env_remove("LEASE_JWT_SECRET_FILE")
            .env("BRAIN_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        if options.actor {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        }
        if !options.no_secret {
            command.env("LEASE_INTERNAL_TOKEN", SECRET);
        }
        let child = command.spawn().unwrap();
        let pods: Collection<Document> = mongo.database().collection("brain_pods");
        let running = doc! { "nodeName": name, "status": "RUNNING" };
        let mut pod = Self {
            id: PodId::new("unknown").unwrap(),
            endpoint: String::new(),
            child,
            folder,
        };
        let said = pod.log_path();
        let own = async || -> anyhow::Result<Option<Document>> {
            let row = pods.find_one(running.clone()).await?;
            // A row that a killed process of the same name left says RUNNING too; the log names the own id.
            let log = fs::read_to_string(&said)?;
            let own = log.lines().find(|line| line.contains("\"running\""));
            Ok(row.filter(|row| {
                let id = row.get_str("_id").unwrap_or_default();
                own.is_some_and(|own| own.contains(id))
            }))
        };
        let started = eventually("the pod runs", SOON, async || Ok(own().await?.is_some())).await;
        if started.is_err() {
            panic!("pod {name} does not run: {}", pod.log());
        }
        let row = own().await.unwrap().unwrap();
        pod.id = PodId::new(row.get_str("_id").unwrap()).unwrap();
        pod.endpoint = row.get_str("endpoint").unwrap().to_owned();
        pod
    }

    fn log_path(&self) -> std::path::PathBuf {
        self.folder.path().join("log")
    }

    /// What it has said so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.endpoint)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills it with -9, and returns when it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stands still from now on.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Where an actor is told what to do, and where it answers.
    pub(crate) fn pipes(&mut self) -> (ChildStdin, ChildStdout) {
        let child = &mut self.child;
        (child.stdin.take().unwrap(), child.stdout.take().unwrap())
    }

    /// Has it revoke a lease, as an operator does.
    pub(crate) async fn revoke(&self, token: &LeaseToken) {
        let answer = client()
            .post(self.url("/internal/lease/admin/revoke"))
            .header(INTERNAL_TOKEN, SECRET)
            .json(&serde_json::json!({ "token": token, "reason": null, "ifPod": null }))
            .send()
            .await
            .unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }

    /// Where it listens, wherever it says that it does.
    pub(crate) fn bound(&self) -> String {
        let log = self.log();
        let starting = log.lines().next().expect("it says where it listens");
        let starting: serde_json::Value = serde_json::from_str(starting).unwrap();
        starting["listen"].as_str().unwrap().to_owned()
    }

    /// Has it clean up under a claim, as another pod does, and gives why it did not.
    pub(crate) async fn asked(&self, token: &LeaseToken, claim: &str) -> Problem {
        let call = RevokedCall {
            pod: self.id.clone(),
            token: token.clone(),
            claim: claim.to_owned(),
        };
        let answer = client()
            .post(self.url("/internal/lease/revoked"))
            .header(INTERNAL_TOKEN, SECRET)
            .json(&call)
            .send()
            .await
            .unwrap();
        answer.json().await.unwrap()
    }

    /// How many handlers have ended in it so far.
    pub(crate) async fn handled(&self) -> u64 {
        let url = format!("http://{}/metrics", self.bound());
        let answer = client().get(url).send().await.unwrap();
        let text = answer.text().await.unwrap();
        let ended = text
            .lines()
            .filter(|line| line.starts_with("vance_lease_handler"));
        let ended = ended.map(|line| line.rsplit_once(' ').unwrap().1);
        ended.map(|count| count.parse::<u64>().unwrap()).sum()
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self, within: Duration) -> ExitStatus {
        let end = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it does not end: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn client() -> reqwest::Client {
    if CryptoProvider::get_default().is_none() {
        // An error says that another thread has just named one.
        let _ = ring::default_provider().install_default();
    }
    reqwest::Client::new()
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{} said:\n{}", self.id, self.log());
        }
    }
}
