//! One `brain` process.

use std::fs::{self, File};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use lease_shared::PodId;
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use rustix::process::{Pid, Signal, kill_process};
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_brain"));
        command.args(["--listen", "127.0.0.1:0", "--node-name", name]);
        for usual in ["--heartbeat=200ms", "--stale=2s", "--reap-interval=300ms"] {
            let (option, _) = usual.split_at(usual.find('=').unwrap());
            if !options.args.iter().any(|arg| arg.starts_with(option)) {
                command.arg(usual);
            }
        }
        command.args(&options.args);
        command
            .env("MONGODB_URI", mongo.uri())
            .env("LEASE_DATABASE", mongo.name())
            .env_remove("LEASE_INTERNAL_TOKEN")
            .env("BRAIN_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
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

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{} said:\n{}", self.id, self.log());
        }
    }
}
