//! A process for the tests to kill, stop and race: it does what the lines on its standard input say, and ends with it.
//!
//! `lease-actor URI DATABASE`; the lines are those of `protocol`.

mod contest;
mod crowd;
mod operator;
mod protocol;
mod stage;

use std::io::{BufRead, Write};
use std::sync::Arc;

use protocol::{Answer, Order};
use stage::Stage;
use tokio::sync::mpsc;

fn main() {
    #[cfg(target_os = "linux")]
    // It dies hundreds of times in a test run; nobody wants the core files.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let mut arguments = std::env::args().skip(1);
    let (Some(uri), Some(database)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: lease-actor URI DATABASE");
        std::process::exit(64);
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(act(&uri, &database));
}

async fn act(uri: &str, database: &str) {
    let stage = Arc::new(Stage::set(uri, database).await);
    let mut orders = orders();
    while let Some((number, order)) = orders.recv().await {
        let stage = Arc::clone(&stage);
        tokio::spawn(async move { say(number, &stage.perform(order).await) });
    }
}

/// The orders as they come. The process ends with its standard input, whatever it is doing.
fn orders() -> mpsc::UnboundedReceiver<(u64, Order)> {
    let (send, receive) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let order = serde_json::from_str(&line).expect("an order");
            if send.send(order).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    receive
}

fn say(number: u64, answer: &Answer) {
    let line = serde_json::to_string(&(number, answer)).expect("an answer");
    let mut out = std::io::stdout().lock();
    // Whoever does not listen any more is gone, and this process is about to follow.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
