//! `cargo xtask mongo start`.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use test_mongo::{
    binary, free_port, log_tail, server_arguments, single_node_uri, start_replication,
};

use super::dev_server::{DevServer, State};
use super::{given_uri, stop};

/// Tried first, so that a connection string stays true from one start to the next.
const PREFERRED_PORT: u16 = 27117;

const ATTEMPTS: usize = 8;

pub(super) async fn run() -> Result<()> {
    if given_uri().await.is_some() {
        println!("MONGODB_URI is set, so its server is used and none is started");
        return Ok(());
    }
    let server = DevServer::new();
    let _lock = server.lock()?;
    match server.state().await {
        State::Running { port, .. } => {
            println!("already runs: {}", single_node_uri(port));
            return Ok(());
        }
        State::Silent { pid } => {
            bail!(
                "the server (process {pid}) runs but does not answer; `cargo xtask mongo stop` ends it"
            )
        }
        State::Stopped => {}
    }
    let port = launch(&server)?;
    if let Err(error) = start_replication(port).await {
        let error = error.context(log_tail(&server.log()));
        stop::end(&server).await?;
        return Err(error);
    }
    println!(
        "runs until `cargo xtask mongo stop`: {}",
        single_node_uri(port)
    );
    Ok(())
}

/// Starts the server in the background on the preferred port, else on any that is free.
fn launch(server: &DevServer) -> Result<u16> {
    let program = binary::find()?;
    let mut port = PREFERRED_PORT;
    for _ in 0..ATTEMPTS {
        if TcpListener::bind(("127.0.0.1", port)).is_err() {
            port = free_port()?;
        }
        server.keep_port(port)?;
        let earlier = fs::metadata(server.log()).map_or(0, |log| log.len());
        // `--fork` gives the server a session of its own, so the terminal's end does not reach it.
        let status = Command::new(&program)
            .args(server_arguments(&server.data(), port))
            .arg("--fork")
            .arg("--pidfilepath")
            .arg(server.pid_file())
            .arg("--logappend")
            .arg("--logpath")
            .arg(server.log())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .with_context(|| format!("start {}", program.display()))?;
        if status.success() {
            return Ok(port);
        }
        let log = fs::read(server.log()).unwrap_or_default();
        let fresh = log.get(usize::try_from(earlier)?..).unwrap_or_default();
        if !String::from_utf8_lossy(fresh).contains("Address already in use") {
            bail!(
                "mongod did not start ({status}); {}",
                log_tail(&server.log())
            );
        }
    }
    bail!("{ATTEMPTS} ports in turn were taken by others before mongod could listen")
}
