//! Another process that acts on the same database: told what to do, stopped, or killed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use crate::protocol::{Answer, Order, Want};
use crate::support::World;

/// No order takes longer, or the test has failed.
const PATIENCE: Duration = Duration::from_secs(180);

/// Who waits for which answer; nothing when the process has ended.
type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>>;

/// A running `lease-actor`. Killed when dropped.
pub(crate) struct Actor {
    child: Child,
    orders: Mutex<ChildStdin>,
    waiting: Waiting,
    next: AtomicU64,
}

impl Actor {
    pub(crate) fn start(world: &World) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lease-actor"))
            .args([world.mongo.uri(), world.mongo.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let (answers, listeners) = (child.stdout.take().unwrap(), Arc::clone(&waiting));
        std::thread::spawn(move || {
            for line in BufReader::new(answers).lines().map_while(Result::ok) {
                let (number, answer): (u64, Answer) = serde_json::from_str(&line).unwrap();
                let mut listeners = listeners.lock().unwrap();
                let listener = listeners.as_mut().and_then(|them| them.remove(&number));
                // One who does not wait any more has failed already.
                let _ = listener.map(|listener| listener.send(answer));
            }
            listeners.lock().unwrap().take();
        });
        Self {
            orders: Mutex::new(child.stdin.take().unwrap()),
            child,
            waiting,
            next: AtomicU64::new(0),
        }
    }

    /// Gives an order at once; the answer can be awaited later. Nothing: the process ended instead.
    pub(crate) fn tell(
        &self,
        order: Order,
    ) -> impl Future<Output = Option<Answer>> + Send + 'static {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (send, receive) = oneshot::channel();
        if let Some(waiting) = self.waiting.lock().unwrap().as_mut() {
            waiting.insert(number, send);
        }
        let line = serde_json::to_string(&(number, &order)).unwrap();
        // A process that has ended takes no orders; that shows in the answer.
        let _ = writeln!(self.orders.lock().unwrap(), "{line}");
        async move {
            match tokio::time::timeout(PATIENCE, receive).await {
                Ok(answer) => answer.ok(),
                Err(_) => panic!("no answer to {order:?}"),
            }
        }
    }

    /// Gives an order and waits for its answer, which must be a success.
    pub(crate) async fn ask(&self, order: Order) -> Answer {
        let question = format!("{order:?}");
        match self.tell(order).await {
            Some(Answer::Failed(error)) => panic!("{question}: {error}"),
            Some(answer) => answer,
            None => panic!("{question}: the actor died"),
        }
    }

    /// Acquires a lease, which must be granted, and gives its token.
    pub(crate) async fn acquire(&self, want: Want) -> String {
        match self.ask(Order::Acquire(want)).await {
            Answer::Held(token) => token,
            other => panic!("expected a lease, got {other:?}"),
        }
    }

    /// Failpoints reached and commands sent so far.
    pub(crate) async fn counted(&self) -> (usize, usize) {
        match self.ask(Order::Count).await {
            Answer::Counted { hits, commands } => (hits, commands),
            other => panic!("{other:?}"),
        }
    }

    /// Makes the next task stop at this point.
    pub(crate) async fn pause(&self, step: &str, after: bool) -> usize {
        let step = step.to_owned();
        match self.ask(Order::Pause { step, after }).await {
            Answer::Gate(gate) => gate,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end, and gives the signal that ended it; nothing if it has not died by itself within the time that
    /// an order may take.
    pub(crate) fn ended_by(&mut self) -> Option<i32> {
        let deadline = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.signal();
            }
            std::thread::yield_now();
        }
        None
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number of an answer that has one.
#[track_caller]
pub(crate) fn times(answer: Answer) -> usize {
    match answer {
        Answer::Times(times) => times,
        other => panic!("expected a number, got {other:?}"),
    }
}

/// A request of an actor that does not wait, by user `who` of `acme/thesis`.
pub(crate) fn want(kind: &str, who: &str) -> Want {
    Want {
        lease: "pdf".to_owned(),
        kind: kind.to_owned(),
        tenancy: ["acme", "thesis", who].map(str::to_owned),
        wait_ms: 0,
    }
}
