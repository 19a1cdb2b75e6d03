//! The smallest MCP server over stdio, and the guardian of it. Its argument says what is odd about it:
//!
//! `polite`: nothing. `silent`: it never answers `initialize`. `deaf`: it does not end with its input.
//!
//! Its tools: `env` gives its variables, `pid` its process number and that of a process that it starts, `stray` that of its
//! guardian and of a process that leaves its group, `garbage` writes nonsense before its answer, `flood` a line without end
//! to stderr, `tell` its secret, `die` ends it, `wait` never answers.

use std::io::{Write, stderr, stdin, stdout};
use std::process::{Command, ExitCode};
use std::{env, thread};

use serde_json::{Value, json};

fn main() -> ExitCode {
    if supervise::is_guardian() {
        return supervise::guardian_main();
    }
    let oddity = env::args().nth(1).unwrap_or_default();
    for line in stdin().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let result = match request["method"].as_str().unwrap() {
            "initialize" if oddity == "silent" => continue,
            "initialize" => json!({
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "probe", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "env", "inputSchema": {"type": "object"}}]}),
            "tools/call" => match call(request["params"]["name"].as_str().unwrap()) {
                Some(text) => json!({"content": [{"type": "text", "text": text}]}),
                None => continue,
            },
            _ => continue,
        };
        say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string());
    }
    if oddity == "deaf" {
        loop {
            thread::park();
        }
    }
    ExitCode::SUCCESS
}

#[expect(clippy::zombie_processes, reason = "it is for the guardian to end")]
fn call(tool: &str) -> Option<String> {
    match tool {
        "env" => Some(json!(env::vars().collect::<std::collections::BTreeMap<_, _>>()).to_string()),
        "pid" => {
            let child = Command::new("sleep").arg("300").spawn().unwrap();
            Some(json!([std::process::id(), child.id()]).to_string())
        }
        "stray" => {
            let child = Command::new("setsid").args(["sleep", "300"]).spawn();
            Some(json!([std::os::unix::process::parent_id(), child.unwrap().id()]).to_string())
        }
        "garbage" => {
            say("this is no JSON");
            say("");
            Some("fine".to_owned())
        }
        "flood" => {
            for _ in 0..1 << 10 {
                stderr().write_all(&[b'x'; 1 << 14]).unwrap();
            }
            Some("fine".to_owned())
        }
        "tell" => {
            eprintln!("it is {}", env::var("SECRET").unwrap());
            Some("fine".to_owned())
        }
        "die" => std::process::exit(3),
        _ => None,
    }
}

fn say(line: &str) {
    let mut stdout = stdout().lock();
    stdout.write_all(line.as_bytes()).unwrap();
    stdout.write_all(b"\n").unwrap();
    stdout.flush().unwrap();
}
