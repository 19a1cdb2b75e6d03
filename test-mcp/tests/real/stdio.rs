//! The servers over standard input and output: they and their browsers end with their input.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use test_mcp::real::{PAGE, Profile, browsers_of, processes_mentioning, tools};
use test_mongo::eventually;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(20);

struct Session {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Session {
    async fn open(command: &[String], directory: &Path) -> Result<Self> {
        let (program, arguments) = command.split_first().context("a program")?;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().context("its input")?;
        let output = child.stdout.take().context("its output")?;
        let output = BufReader::new(output).lines();
        let mut session = Self {
            child,
            input,
            output,
        };
        let parameters = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test-mcp", "version": "0" },
        });
        session.ask("initialize", parameters).await?;
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        session.send(&initialized).await?;
        Ok(session)
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Result<String> {
        let parameters = json!({ "name": tool, "arguments": arguments });
        let answer = self.ask("tools/call", parameters).await?;
        let text = answer["content"][0]["text"].as_str();
        Ok(text.context(answer.to_string())?.to_owned())
    }

    /// Closes its input and waits for its end.
    async fn close(mut self) -> Result<()> {
        drop(self.input);
        timeout(LONG, self.child.wait()).await??;
        Ok(())
    }

    async fn ask(&mut self, method: &str, parameters: Value) -> Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters });
        self.send(&request).await?;
        while let Some(line) = timeout(LONG, self.output.next_line()).await?? {
            let message: Value = serde_json::from_str(&line)?;
            if let Some(result) = message.get("result") {
                return Ok(result.clone());
            }
        }
        anyhow::bail!("no answer to {method}")
    }

    async fn send(&mut self, message: &Value) -> Result<()> {
        let line = format!("{message}\n");
        Ok(self.input.write_all(line.as_bytes()).await?)
    }
}

#[tokio::test]
async fn everything_answers() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    let directory = tempfile::tempdir()?;
    let mut session = Session::open(&tools.everything_stdio(), directory.path()).await?;
    let echo = session.call("echo", json!({ "message": "hello" })).await?;
    assert_eq!(echo, "Echo: hello");
    session.close().await
}

#[tokio::test]
async fn browser_ends_with_the_session() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    for profile in [Profile::Isolated, Profile::OnDisk] {
        let directory = tempfile::tempdir()?;
        let command = tools.playwright_stdio(directory.path(), profile)?;
        let mut session = Session::open(&command, directory.path()).await?;
        let answer = session
            .call("browser_navigate", json!({ "url": PAGE }))
            .await?;
        assert!(answer.contains("Page Title: Before"), "{answer}");
        assert_eq!(browsers_of(directory.path())?, 1);
        session.close().await?;
        eventually("the browser's end", LONG, async || {
            Ok(processes_mentioning(directory.path())?.is_empty())
        })
        .await?;
    }
    Ok(())
}
