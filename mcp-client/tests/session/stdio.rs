//! Sessions with a child behind pipes.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_client::{EnvSource, McpConnection, McpError, McpServer, McpTransport, StdioServer};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::guard::{Ask, Guards, Say};
use crate::rig::server;

const PROBE: &str = env!("CARGO_BIN_EXE_mcp-probe");

struct Rig {
    guards: Guards,
    connection: McpConnection,
}

impl Rig {
    fn new(oddity: &str) -> Self {
        Self::with(oddity, |_| {})
    }

    fn with(oddity: &str, change: impl FnOnce(&mut StdioServer)) -> Self {
        let mut stdio = StdioServer {
            program: PROBE.to_owned(),
            args: vec![oddity.to_owned()],
            cwd: None,
            env: variables(&[("SECRET", "hunter2")]),
            guardian: Some(PROBE.into()),
        };
        change(&mut stdio);
        let server = McpServer {
            transport: McpTransport::Stdio(stdio),
            ..server("http://unused")
        };
        let guards = Guards::new();
        let connection = McpConnection::new(server, guards.source());
        Self { guards, connection }
    }

    async fn call(&self, tool: &str) -> Result<String, McpError> {
        let result = self.connection.call(tool, Map::new()).await?;
        Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
    }

    /// The processes that the session runs: the child's and one that it started.
    async fn processes(&self) -> Vec<Value> {
        serde_json::from_str(&self.call("pid").await.unwrap()).unwrap()
    }
}

fn variables(pairs: &[(&str, &str)]) -> EnvSource {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    Arc::new(move || {
        let pairs = pairs.clone();
        Box::pin(async { Ok(pairs.into_iter().collect()) })
    })
}

fn kill(process: &Value) {
    let process = rustix::process::Pid::from_raw(process.as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

fn assert_gone(processes: &[Value]) {
    for process in processes {
        assert!(
            !Path::new(&format!("/proc/{process}")).exists(),
            "{process} lives"
        );
    }
}

#[tokio::test]
async fn the_child_is_the_session_and_ends_with_it() {
    let rig = Rig::new("polite");
    let processes = rig.processes().await;
    assert_eq!(rig.connection.tools().await.unwrap()[0].name, "env");
    rig.connection.close().await;
    assert_gone(&processes);
    assert_eq!(
        rig.guards.log(),
        [
            "1 opening",
            "1 opened stdio -",
            "1 used",
            "1 used",
            "1 closed"
        ]
    );
    assert_ne!(rig.processes().await, processes);
    rig.connection.close().await;
}

#[tokio::test]
async fn a_child_that_does_not_end_with_its_input_is_ended() {
    let rig = Rig::new("deaf");
    let processes = rig.processes().await;
    rig.connection.close().await;
    assert_gone(&processes);
    assert_eq!(rig.guards.log().last().unwrap(), "1 closed");
}

#[tokio::test]
async fn a_revocation_ends_the_call_and_the_child() {
    let rig = Rig::new("polite");
    let processes = rig.processes().await;
    let (called, ()) = tokio::join!(rig.call("wait"), async { rig.guards.revoke(1) });
    assert!(matches!(called, Err(McpError::Revoked(_))), "{called:?}");
    assert_gone(&processes);
}

#[tokio::test]
async fn a_child_that_dies_breaks_the_call_and_gives_the_guard_back() {
    let rig = Rig::new("polite");
    let processes = rig.processes().await;
    let error = rig.call("die").await.unwrap_err();
    assert!(matches!(error, McpError::Broken { .. }), "{error:?}");
    rig.guards.until("1 closed").await;
    assert_gone(&processes);
    rig.call("env").await.unwrap();
    rig.connection.close().await;
}

#[tokio::test]
async fn a_child_that_dies_between_two_calls_gives_the_guard_back() {
    let rig = Rig::new("polite");
    let processes = rig.processes().await;
    kill(&processes[0]);
    rig.guards.until("1 closed").await;
    assert_gone(&processes);
    rig.call("env").await.unwrap();
    rig.connection.close().await;
}

#[tokio::test]
async fn a_guardian_that_is_killed_gives_the_guard_back_though_the_pipe_stays_open() {
    let rig = Rig::new("polite");
    let processes: Vec<Value> = serde_json::from_str(&rig.call("stray").await.unwrap()).unwrap();
    let [guardian, stray] = processes.as_slice() else {
        panic!("{processes:?}");
    };
    kill(guardian);
    rig.guards
        .until("1 closed, unsure: something else killed the child's guardian")
        .await;
    kill(stray);
    rig.call("env").await.unwrap();
    rig.connection.close().await;
}

#[tokio::test]
async fn nonsense_between_the_answers_is_skipped() {
    let rig = Rig::new("polite");
    assert_eq!(rig.call("garbage").await.unwrap(), "fine");
    rig.connection.close().await;
}

#[tokio::test]
async fn a_line_without_end_on_stderr_stops_nobody() {
    let rig = Rig::new("polite");
    assert_eq!(rig.call("flood").await.unwrap(), "fine");
    rig.connection.close().await;
}

/// Gives the messages of events.
struct Messages(mpsc::UnboundedSender<String>);

impl Subscriber for Messages {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut |field: &Field, value: &dyn Debug| {
            if field.name() == "message" {
                let _ = self.0.send(format!("{value:?}"));
            }
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn what_a_child_was_given_is_not_logged_when_it_says_it() {
    let (messages, mut logged) = mpsc::unbounded_channel();
    let _logging = tracing::subscriber::set_default(Messages(messages));
    let rig = Rig::new("polite");
    assert_eq!(rig.call("tell").await.unwrap(), "fine");
    let line = loop {
        let message = logged.recv().await.unwrap();
        if message.starts_with("stderr: ") {
            break message;
        }
    };
    assert_eq!(line, "stderr: it is …");
    rig.connection.close().await;
}

#[tokio::test]
async fn a_child_gets_few_variables_and_those_of_its_source() {
    let rig = Rig::new("polite");
    let got: Map<String, Value> = serde_json::from_str(&rig.call("env").await.unwrap()).unwrap();
    assert_eq!(got["SECRET"], "hunter2");
    assert_eq!(got["PATH"], std::env::var("PATH").unwrap());
    assert!(!got.contains_key("CARGO_MANIFEST_DIR"), "{got:?}");
    assert!(!format!("{:?}", rig.connection).contains("hunter2"));
    rig.connection.close().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let rig = Rig::with("", |stdio| stdio.program = "no-such-program".to_owned());
    match rig.call("env").await.unwrap_err() {
        McpError::Open { source, .. } => {
            assert_eq!(source.to_string(), "cannot start no-such-program")
        }
        other => panic!("{other:?}"),
    }
    rig.guards.until("1 closed").await;
}

#[tokio::test]
async fn variables_that_cannot_be_got_start_nothing() {
    let rig = Rig::with("", |stdio| {
        stdio.env = Arc::new(|| Box::pin(async { Err("no such secret".into()) }))
    });
    match rig.call("env").await.unwrap_err() {
        McpError::Open { source, .. } => {
            assert_eq!(source.source().unwrap().to_string(), "no such secret")
        }
        other => panic!("{other:?}"),
    }
    rig.guards.until("1 closed").await;
}

#[tokio::test]
async fn a_child_that_says_nothing_is_ended_when_its_time_is_over() {
    let mut server = server("http://unused");
    server.init_timeout = Duration::from_secs(1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("echo $$ > {}; exec {PROBE} silent", file.display());
    server.transport = McpTransport::Stdio(StdioServer {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), script],
        cwd: None,
        env: variables(&[]),
        guardian: Some(PROBE.into()),
    });
    let guards = Guards::new();
    let connection = McpConnection::new(server, guards.source());
    let error = connection.call("env", Map::new()).await.unwrap_err();
    assert!(matches!(error, McpError::Open { .. }), "{error:?}");
    guards.until("1 closed").await;
    let pid = std::fs::read_to_string(file).unwrap();
    assert_gone(&[pid.trim().parse::<u32>().unwrap().into()]);
}

#[tokio::test]
async fn a_caller_dropped_while_the_child_starts_leaves_none() {
    let rig = Rig::new("polite");
    rig.guards.say(Ask::Opened, Say::Nothing);
    let mut call = Box::pin(rig.connection.call("env", Map::new()));
    tokio::select! {
        _ = &mut call => panic!("opened without its guard"),
        () = rig.guards.until("1 opened stdio -") => {}
    }
    drop(call);
    rig.connection.close().await;
    assert_eq!(
        rig.guards.log(),
        ["1 opening", "1 opened stdio -", "1 closed"]
    );
}
