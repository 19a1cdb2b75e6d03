//! `cargo xtask mongo stop`.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use test_mongo::eventually;

use super::dev_server::{DevServer, State};

pub(super) async fn run() -> Result<()> {
    let server = DevServer::new();
    let _lock = server.lock()?;
    let ran = end(&server).await?;
    println!("{}", if ran { "stopped" } else { "no server runs" });
    Ok(())
}

/// Ends the server, if it runs: by its own command, else by signals. Says whether it ran.
pub(super) async fn end(server: &DevServer) -> Result<bool> {
    let pid = match server.state().await {
        State::Stopped => return Ok(false),
        State::Running { port, pid } => {
            server.ask_to_end(port).await;
            pid
        }
        State::Silent { pid } => {
            send(server, pid, Signal::TERM)?;
            send(server, pid, Signal::CONT)?;
            pid
        }
    };
    if ends_within(server, pid, Duration::from_secs(20))
        .await
        .is_err()
    {
        send(server, pid, Signal::KILL)?;
        ends_within(server, pid, Duration::from_secs(20)).await?;
    }
    Ok(true)
}

async fn ends_within(server: &DevServer, pid: i32, time: Duration) -> Result<()> {
    eventually("the server's end", time, async || Ok(!server.is_ours(pid))).await
}

/// Only ever to a process that has been found to be ours a moment ago.
fn send(server: &DevServer, pid: i32, signal: Signal) -> Result<()> {
    if !server.is_ours(pid) {
        return Ok(());
    }
    let target = Pid::from_raw(pid).context("read the server's process id")?;
    kill_process(target, signal).with_context(|| format!("send {signal:?} to process {pid}"))
}
