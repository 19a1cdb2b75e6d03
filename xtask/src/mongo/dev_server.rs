//! What is known of the server: its folder, its port, whether the process there is really ours.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mongodb::bson::doc;
use test_mongo::{admin_command, direct_client, paths, single_node_uri};
use tokio::time::timeout;

/// The server of `cargo xtask mongo`, which may or may not run.
pub(super) struct DevServer {
    directory: PathBuf,
}

/// Whether it runs.
pub(super) enum State {
    /// It answers, and by its own word it is ours.
    Running {
        port: u16,
        pid: i32,
    },
    /// Its process is there and does not answer.
    Silent {
        pid: i32,
    },
    Stopped,
}

impl DevServer {
    pub(super) fn new() -> Self {
        let directory = paths::server_data().join("dev");
        Self { directory }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("mongod.log")
    }

    pub(super) fn pid_file(&self) -> PathBuf {
        self.directory.join("mongod.pid")
    }

    fn port_file(&self) -> PathBuf {
        self.directory.join("port")
    }

    /// Makes the folder and keeps other starts and stops away until the lock is dropped.
    pub(super) fn lock(&self) -> Result<File> {
        let data = self.data();
        fs::create_dir_all(&data).with_context(|| format!("create {}", data.display()))?;
        let lock = File::create(self.directory.join("lock")).context("open the lock")?;
        lock.lock().context("lock the server's folder")?;
        Ok(lock)
    }

    /// The port it has, or had when it last ran.
    fn port(&self) -> Option<u16> {
        fs::read_to_string(self.port_file())
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    pub(super) fn keep_port(&self, port: u16) -> Result<()> {
        fs::write(self.port_file(), format!("{port}\n")).context("write the port")
    }

    /// Whether a connection string is the one that people were told for it, at its port or the last one that it had.
    pub(super) fn is_named_by(&self, uri: &str) -> bool {
        self.port().is_some_and(|port| single_node_uri(port) == uri)
    }

    pub(super) async fn state(&self) -> State {
        if let Some(port) = self.port()
            && let Ok(Some(pid)) = self.answering(port).await
        {
            return State::Running { port, pid };
        }
        match self.pid() {
            Some(pid) if self.is_ours(pid) => State::Silent { pid },
            _ => State::Stopped,
        }
    }

    /// The process behind this port, if it says that our folder is its data.
    async fn answering(&self, port: u16) -> Result<Option<i32>> {
        let asking = async {
            let admin = direct_client(port).await?.database("admin");
            let options = admin.run_command(doc! { "getCmdLineOpts": 1 }).await?;
            let storage = options.get_document("parsed")?.get_document("storage")?;
            let status = admin.run_command(doc! { "serverStatus": 1 }).await?;
            let is_ours = self.data().to_str() == storage.get_str("dbPath").ok();
            let pid = i32::try_from(status.get_i64("pid")?)?;
            anyhow::Ok(is_ours.then_some(pid))
        };
        timeout(Duration::from_secs(5), asking).await?
    }

    fn pid(&self) -> Option<i32> {
        fs::read_to_string(self.pid_file())
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Whether this process is a server on our folder. Process ids are used again, so a kept one proves nothing.
    pub(super) fn is_ours(&self, pid: i32) -> bool {
        command_line(pid).is_some_and(|line| {
            line.contains("mongod") && line.contains(&*self.data().to_string_lossy())
        })
    }

    /// Asks the server to end. It mostly closes the connection instead of an answer, so its end alone tells.
    pub(super) async fn ask_to_end(&self, port: u16) {
        let uri = format!("mongodb://127.0.0.1:{port}/?directConnection=true");
        let command = doc! { "shutdown": 1, "force": true, "timeoutSecs": 0 };
        if let Ok(Err(error)) = timeout(Duration::from_secs(5), admin_command(&uri, command)).await
            && !error
                .downcast_ref::<mongodb::error::Error>()
                .is_some_and(is_closed_connection)
        {
            eprintln!("mongo: {error:#}");
        }
    }
}

fn is_closed_connection(error: &mongodb::error::Error) -> bool {
    matches!(&*error.kind, mongodb::error::ErrorKind::Io(_))
}

/// The command line of a process, from `/proc` or, where there is none, from `ps`.
fn command_line(pid: i32) -> Option<String> {
    if let Ok(raw) = fs::read(format!("/proc/{pid}/cmdline")) {
        return Some(String::from_utf8_lossy(&raw).replace('\0', " "));
    }
    let output = Command::new("ps")
        .args(["-ww", "-o", "args=", "-p", &pid.to_string()])
        .output()
        .ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_named_by_what_people_were_told_also_when_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let server = DevServer {
            directory: folder.path().to_owned(),
        };
        let uri = single_node_uri(27_117);
        assert!(!server.is_named_by(&uri));
        server.keep_port(27_117).unwrap();
        assert!(server.is_named_by(&uri));
        for other in [single_node_uri(27_118), format!("{uri}&w=1"), String::new()] {
            assert!(!server.is_named_by(&other), "{other}");
        }
    }
}
