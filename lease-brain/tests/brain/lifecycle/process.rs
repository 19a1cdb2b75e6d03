//! A `brain` that need not come up.

use std::fs::{self, File};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use test_mongo::eventually;

use crate::asking::Reply;
use crate::fleet::{SECRET, SOON};

/// Killed when dropped.
pub(super) struct Process {
    child: Child,
    folder: TempDir,
}

impl Process {
    pub(super) fn start(uri: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_brain"));
        if !args.iter().any(|arg| arg.starts_with("--listen")) {
            command.arg("--listen=127.0.0.1:0");
        }
        let child = command
            .args(args)
            .env("MONGODB_URI", uri)
            .env("LEASE_INTERNAL_TOKEN", SECRET)
            .env("BRAIN_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// What it said that is no log: why it ended.
    pub(super) fn said(&self) -> Vec<String> {
        let log = self.log();
        let lines = log.lines().filter(|line| !line.starts_with('{'));
        lines.map(str::to_owned).collect()
    }

    /// Asks it, as soon as it listens.
    pub(super) async fn get(&self, path: &str) -> Reply {
        self.get_with(path, "x-vance-internal-token", SECRET).await
    }

    /// The same, showing something else.
    pub(super) async fn get_with(&self, path: &str, header: &str, value: &str) -> Reply {
        let endpoint = || {
            let log = self.log();
            let (_, rest) = log.split_once("\"endpoint\":\"")?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        eventually("it listens", SOON, || async { Ok(endpoint().is_some()) })
            .await
            .unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = format!("{}{path}", endpoint().unwrap());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let call = client.get(url).header(header, value).timeout(SOON);
        Reply::of(call.send().await.unwrap()).await
    }

    pub(super) async fn ended(&mut self, within: Duration) -> ExitStatus {
        let end = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it does not end: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for its end, and expects one line on why and this code.
    pub(super) async fn refused(&mut self, code: i32) -> String {
        let status = self.ended(SOON).await;
        let said = self.said();
        assert_eq!(status.code(), Some(code), "{said:?}");
        let [line] = said.as_slice() else {
            panic!("not one line: {said:?}");
        };
        line.clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
